//! `leno enter`: the command through which `leno run` starts the program and the proxy. Not for direct use.
//!
//! Enters the run's network namespace, gives up root, asks the kernel to kill it when its parent ends, and then runs
//! the proxy or replaces itself with the program.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::process::{
    DumpableBehavior, Gid, Pid, Signal, Uid, getppid, set_dumpable_behavior, set_parent_process_death_signal,
};
use rustix::thread::{UnshareFlags, set_no_new_privs, set_thread_gid, set_thread_groups, set_thread_uid};

use super::network;

/// Options of `leno enter`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Process id of the expected parent
    #[arg(long)]
    pub(super) parent: u32,
    /// File of the network namespace
    #[arg(long)]
    pub(super) namespace: PathBuf,
    /// File to mount over /etc/hosts, in a separate mount namespace
    #[arg(long)]
    pub(super) hosts: Option<PathBuf>,
    /// User to become; default: the caller
    #[arg(long, requires = "gid")]
    pub(super) uid: Option<u32>,
    /// Group of that user
    #[arg(long)]
    pub(super) gid: Option<u32>,
    /// Supplementary group of that user
    #[arg(long)]
    pub(super) group: Vec<u32>,
    /// Run the proxy, with the arguments that follow
    #[arg(long)]
    pub(super) proxy: bool,
    /// Program and its arguments, or the proxy's arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub(super) args: Vec<OsString>,
}

impl Options {
    /// Converts these options back to the command-line arguments with which `leno run` starts `leno enter`.
    pub(super) fn to_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["enter".into(), format!("--parent={}", self.parent).into()];
        let mut path = |name: &str, path: &Path| {
            let mut arg = OsString::from(name);
            arg.push(path);
            args.push(arg);
        };
        path("--namespace=", &self.namespace);
        if let Some(hosts) = &self.hosts {
            path("--hosts=", hosts);
        }
        args.extend(self.uid.map(|uid| format!("--uid={uid}").into()));
        args.extend(self.gid.map(|gid| format!("--gid={gid}").into()));
        args.extend(self.group.iter().map(|gid| format!("--group={gid}").into()));
        args.extend(self.proxy.then(|| "--proxy".into()));
        args.push("--".into());
        args.extend(self.args.iter().cloned());
        args
    }

    /// Replaces this process with the program, or runs the proxy until it ends.
    ///
    /// # Errors
    /// If a step before the program's start fails. If only the program cannot be executed, returns an exit code
    /// instead.
    pub(crate) fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        network::enter(&self.namespace).map_err(|error| format!("{}: {error}", self.namespace.display()))?;
        if let Some(hosts) = &self.hosts {
            replace_hosts(hosts).map_err(|error| format!("replacing /etc/hosts: {error}"))?;
        }
        self.become_user().map_err(|error| format!("giving up root: {error}"))?;
        // Ask for a signal on the parent's death only after the change of user, because the change cancels the request.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid().map(Pid::as_raw_pid) != i32::try_from(self.parent).ok() {
            return Err("the parent has ended".into());
        }
        if self.proxy {
            set_no_new_privs(true)?;
            // Make the process dumpable. The proxy reads metrics from its own /proc files, which a process may not read
            // after a change of user unless it is dumpable.
            set_dumpable_behavior(DumpableBehavior::Dumpable)?;
            let name = OsString::from("leno-proxy");
            return Ok(leno_proxy::main_with_args(&["proxy"], [name].into_iter().chain(self.args)));
        }
        let (program, args) = self.args.split_first().ok_or("no program is named")?;
        let error = Command::new(program).args(args).exec();
        eprintln!("leno: {}: {error}", program.display());
        // Use the exit codes of shells: 127 if the program is not found, 126 if it is not executable.
        Ok(ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }))
    }

    /// Changes the user and the groups to those in the options. It is enough to change them for this thread, because
    /// the process has only one thread at this point.
    fn become_user(&self) -> io::Result<()> {
        let (Some(uid), Some(gid)) = (self.uid, self.gid) else {
            return Ok(());
        };
        let groups: Vec<Gid> = self.group.iter().copied().map(Gid::from_raw).collect();
        set_thread_groups(&groups)?;
        set_thread_gid(Gid::from_raw(gid))?;
        set_thread_uid(Uid::from_raw(uid))?;
        Ok(())
    }
}

#[allow(deprecated, reason = "the replacement is unsafe because of flags that are not used here")]
fn replace_hosts(hosts: &Path) -> io::Result<()> {
    rustix::thread::unshare(UnshareFlags::NEWNS)?;
    // Make propagation private, so that the mount below is not visible outside this mount namespace.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    Ok(mount_bind(hosts, "/etc/hosts")?)
}

#[cfg(test)]
#[path = "enter_tests.rs"]
mod tests;
