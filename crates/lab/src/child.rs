//! Child processes that never outlive the lab: servers, proxies and load.
//!
//! Each child starts as the hidden `leno exec`. `leno exec` asks the kernel to kill it when its parent (the lab) dies,
//! even if the parent dies by SIGKILL or a panic. Then `leno exec` pins itself to CPUs, and becomes the program. So the
//! child's process id is the program's own id, by which the lab reads the program's CPU time.

mod address;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, Result, io};
pub use address::free_address;

/// Longest time until a child accepts requests.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(10);
/// A program to start.
pub struct Launch {
    /// A name for this process, unique within a run; it is also the name of its log file.
    pub name: String,
    /// The program's path.
    pub program: PathBuf,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// Additional environment variables.
    pub env: Vec<(OsString, OsString)>,
    /// The variables of this process that the program inherits; `None` for all.
    pub inherited: Option<&'static [&'static str]>,
    /// The CPUs that the program may use; empty for all.
    pub cpus: Vec<usize>,
}

impl Launch {
    /// A program with its arguments, on all CPUs.
    pub fn new<I, A>(name: impl Into<String>, program: impl Into<PathBuf>, args: I) -> Self
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        Self {
            name: name.into(),
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            inherited: None,
            cpus: Vec::new(),
        }
    }

    /// Sets a variable of the program's environment.
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Lets the program inherit only these variables of this process.
    pub fn inheriting_only(mut self, names: &'static [&'static str]) -> Self {
        self.inherited = Some(names);
        self
    }

    /// Pins the program to these CPUs.
    pub fn on_cpus(mut self, cpus: &[usize]) -> Self {
        self.cpus = cpus.to_vec();
        self
    }

    /// Creates the command for `leno exec`, which then becomes the program.
    pub fn command(&self) -> Result<Command> {
        let leno = std::env::current_exe().map_err(io("finding leno's own executable"))?;
        let mut command = Command::new(leno);
        command.arg("exec").arg("--parent");
        command.arg(std::process::id().to_string());
        for cpu in &self.cpus {
            command.arg("--cpu").arg(cpu.to_string());
        }
        command.arg("--").arg(&self.program).args(&self.args);
        if let Some(names) = self.inherited {
            inherit_only(&mut command, names);
        }
        command.envs(self.env.iter().cloned()).stdin(Stdio::null());
        Ok(command)
    }
}

/// Lets a command inherit only these variables of this process.
pub(crate) fn inherit_only(command: &mut Command, names: &[&str]) {
    command.env_clear();
    command.envs(names.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
}

/// A running child process. Dropping it kills the process.
pub struct Child {
    name: String,
    process: std::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts a program that writes its output to `<log_dir>/<name>.log`.
    pub fn start(launch: &Launch, log_dir: &Path) -> Result<Self> {
        let log = log_dir.join(format!("{}.log", launch.name));
        let cannot_log = || format!("writing {}", log.display());
        let output = File::create(&log).map_err(io(cannot_log()))?;
        let errors = output.try_clone().map_err(io(cannot_log()))?;
        let process =
            launch.command()?.stdout(output).stderr(errors).spawn().map_err(io(format!("starting {}", launch.name)))?;
        Ok(Self { name: launch.name.clone(), process, log })
    }

    /// The program's process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns an error if the program has ended.
    pub fn ensure_running(&mut self) -> Result<()> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Error::ChildEnded {
                name: self.name.clone(),
                status: status.to_string(),
                last_line: self.last_line(),
            }),
            Err(error) => Err(io(format!("watching {}", self.name))(error)),
        }
    }

    /// Waits until the program has ended by itself, and returns its output. Needs a tokio runtime. If the caller stops
    /// waiting, the program is killed.
    ///
    /// # Errors
    /// If the program cannot be watched, or its output cannot be read.
    pub(crate) async fn output(mut self) -> Result<Vec<u8>> {
        let what = format!("watching {}", self.name);
        let mut ends = signal(SignalKind::child()).map_err(io(what.as_str()))?;
        while self.process.try_wait().map_err(io(what.as_str()))?.is_none() {
            ends.recv().await;
        }
        fs::read(&self.log).map_err(io(format!("reading {}", self.log.display())))
    }

    /// Sends the program SIGTERM, and waits until it has ended. Kills it after `grace`. Checks in a loop whether the
    /// program has ended, and calls `wait` with the time to wait before the next check.
    ///
    /// # Errors
    /// If the kernel rejects the signal, or the program cannot be watched.
    pub fn terminate(&mut self, grace: Duration, wait: impl Fn(Duration)) -> Result<()> {
        let what = || format!("ending {}", self.name);
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).map_err(|error| io(what())(error.into()))?;
        }
        let start = Instant::now();
        while start.elapsed() < grace {
            if self.process.try_wait().map_err(io(what()))?.is_some() {
                return Ok(());
            }
            wait(READY_POLL);
        }
        self.kill();
        Ok(())
    }

    /// Kills the program, and waits until it has ended.
    pub fn kill(&mut self) {
        // Fails only if the program has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Waits until a program accepts connections on `address`.
    pub fn wait_for_listener(&mut self, address: SocketAddr) -> Result<()> {
        self.wait_until(address, || TcpStream::connect(address).is_ok())
    }

    /// Waits until `GET <path>` on `address` gets the status 200.
    pub fn wait_for_http_ok(&mut self, address: SocketAddr, path: &str) -> Result<()> {
        self.wait_until(address, || crate::http::is_ok(address, path))
    }

    /// Waits until `ready` returns true. An error names `address`.
    pub(crate) fn wait_until(&mut self, address: SocketAddr, ready: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            self.ensure_running()?;
            if start.elapsed() > READY_TIMEOUT {
                return Err(Error::NotReady {
                    name: self.name.clone(),
                    address,
                    waited_ms: READY_TIMEOUT.as_millis(),
                    last_line: self.last_line(),
                });
            }
            thread::sleep(READY_POLL);
        }
        // The answer may come from another program at the same address. In that case, this child could not bind the
        // address and has ended.
        self.ensure_running()
    }

    fn last_line(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        last_line(&text)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the last non-empty line of a program's output, for a one-line error.
pub(crate) fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().rev().map(str::trim).find(|l| !l.is_empty());
    line.unwrap_or("it wrote nothing").to_owned()
}

/// Asks the kernel to kill this process when its parent dies, and then becomes `program`. Returns only on failure.
///
/// `parent` is the process id of the expected parent. If this process has another parent by now, the expected parent
/// died before the request to the kernel. In this case the function starts nothing and returns an error.
pub fn become_program(parent: u32, cpus: &[usize], program: &Path, args: &[OsString]) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    if getppid().map(Pid::as_raw_pid) != i32::try_from(parent).ok() {
        return io::Error::other("the parent has ended");
    }
    if let Err(error) = pin(cpus) {
        return error;
    }
    Command::new(program).args(args).exec()
}

/// Restricts the calling thread, and threads and processes that it starts, to these CPUs. An empty list allows all.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Finds a program in PATH, or in the directories outside a user's PATH where Debian installs servers.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    places.map(|dir| dir.join(name)).find(|path| path.is_file())
}
