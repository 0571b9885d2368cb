//! `leno enter`: the first step of the program and the proxy that `leno run` starts. Not for direct use.
//!
//! Enters the run's network namespace, gives up root, arranges to end with its parent, and then runs the proxy or
//! replaces itself with the program.

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
    /// Returns command-line arguments that parse to these options.
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

    /// Becomes the program, or runs the proxy to its end.
    ///
    /// # Errors
    /// If the system refuses a preparation step. A program that cannot be run is no error here: the result is an exit
    /// code.
    pub(crate) fn run(self) -> Result<ExitCode, Box<dyn Error>> {
        network::enter(&self.namespace).map_err(|error| format!("{}: {error}", self.namespace.display()))?;
        if let Some(hosts) = &self.hosts {
            replace_hosts(hosts).map_err(|error| format!("replacing /etc/hosts: {error}"))?;
        }
        self.become_user().map_err(|error| format!("giving up root: {error}"))?;
        // Set this after the change of user: the kernel clears the setting when a process changes its user.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid().map(Pid::as_raw_pid) != i32::try_from(self.parent).ok() {
            return Err("the parent has ended".into());
        }
        if self.proxy {
            set_no_new_privs(true)?;
            // The proxy reads metrics from its own /proc files. A process that changed its user may not read these
            // files unless it is dumpable.
            set_dumpable_behavior(DumpableBehavior::Dumpable)?;
            let name = OsString::from("leno-proxy");
            return Ok(leno_proxy::main_with_args(&["proxy"], [name].into_iter().chain(self.args)));
        }
        let (program, args) = self.args.split_first().ok_or("no program is named")?;
        let error = Command::new(program).args(args).exec();
        eprintln!("leno: {}: {error}", program.display());
        // Exit codes as shells use them: 127 not found, 126 not executable.
        Ok(ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }))
    }

    /// Changes to the user and groups of the options. The process has only one thread at this point, so changing the
    /// ids of this thread is enough.
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
    // Private propagation: the mount must not be visible outside this mount namespace.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    Ok(mount_bind(hosts, "/etc/hosts")?)
}

#[cfg(test)]
#[path = "enter_tests.rs"]
mod tests;
