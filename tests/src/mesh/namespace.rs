//! A network namespace with its own process ids and mounts, and programs in it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process};

use super::TIMEOUT;
use crate::programs::{self, program};
use crate::proxy::{Signal, wait_for};

/// Longest time that a test waits for a program to end.
const RUN_TIMEOUT: Duration = Duration::from_secs(40);

/// A namespace. The kernel kills all programs in it when this value is dropped, or when the thread that created it
/// ends.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Creates a namespace with only loopback, whose /etc/hosts is the file `hosts`.
    pub(super) fn new(hosts: &Path) -> Self {
        // unshare makes mounts private, so these mounts are visible only in the namespace. The empty resolv.conf names
        // no name server, so no program waits for one.
        let script = "ip link set lo up
            mount --bind \"$0\" /etc/hosts
            if [ -e /etc/resolv.conf ]; then mount --bind /dev/null /etc/resolv.conf; fi
            echo ready
            exec sleep infinity";
        let holder = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"])
            .args(["sh", "-ec", script])
            .arg(hosts)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("setpriv (util-linux) runs");
        let mut this = Self { holder };
        // Wait until the script runs, because its process must be the first in the namespace: when the first process
        // ends, the kernel kills all others.
        let mut said = [0; 5];
        let output = this.holder.stdout.as_mut().expect("it is piped");
        output.read_exact(&mut said).expect("unshare (util-linux) makes a namespace");
        this
    }

    /// Returns the id of a process in this network namespace. The id is valid outside of the namespace.
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Connects `other` to the bridge of this namespace by a pair of virtual Ethernet devices: `device` in this
    /// namespace, and `eth0` in `other`.
    pub(super) fn connect(&self, device: &str, other: &Self) {
        let script = "ip link add \"$0\" type veth peer name eth0 netns \"$1\" && ip link set \"$0\" master br0 up";
        // Enter only the network namespace, and not the process namespace: the script uses a process id that is valid
        // outside.
        let net = format!("--net=/proc/{}/ns/net", self.pid());
        let other = other.pid().to_string();
        programs::run_well("nsenter", &[&net, "sh", "-ec", script, device, &other], TIMEOUT);
    }

    /// Returns a command that runs a program in the namespace; killing the command's process kills the program.
    pub fn command(&self, name: &str) -> Command {
        self.command_as(None, name)
    }

    pub(super) fn command_as(&self, uid: Option<u32>, name: &str) -> Command {
        let pid = self.pid();
        let mut command = Command::new("nsenter");
        command.args([
            &format!("--net=/proc/{pid}/ns/net"),
            &format!("--mount=/proc/{pid}/ns/mnt"),
            &format!("--pid=/proc/{pid}/ns/pid_for_children"),
            "setpriv",
            "--pdeathsig",
            "KILL",
        ]);
        if let Some(uid) = uid {
            let uid = uid.to_string();
            command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]);
        }
        command.arg(program(name)).stdin(Stdio::null());
        command
    }

    /// Runs a program to its end.
    ///
    /// # Panics
    /// If it does not start, or does not end in time.
    pub fn run(&self, name: &str, arguments: &[&str]) -> Output {
        let limit = RUN_TIMEOUT.as_secs().to_string();
        let output = self.command("timeout").arg(limit).arg(program(name)).args(arguments).output();
        let output = output.expect("nsenter (util-linux) runs");
        let why = match output.status.code() {
            Some(124) => "does not end",
            Some(126 | 127) => "is not there; ./test installs or builds it",
            _ => return output,
        };
        panic!("{name} {arguments:?} {why}: {}", programs::text(&output));
    }

    /// Runs a program that must succeed, and returns what it printed.
    ///
    /// # Panics
    /// If it fails.
    pub fn run_well(&self, name: &str, arguments: &[&str]) -> String {
        let output = self.run(name, arguments);
        let printed = programs::text(&output);
        assert!(output.status.success(), "{name} {arguments:?}: {}\n{printed}", output.status);
        printed
    }

    /// Starts a program in the background.
    pub fn start(&self, name: &str, arguments: &[&str]) -> Program {
        let mut command = self.command(name);
        command.args(arguments);
        Program::spawn(name, &mut command)
    }

    /// Waits until a program listens on this TCP port of the namespace.
    pub fn wait_for_port(&self, port: u16) {
        let filter = format!("sport = :{port}");
        wait_for(&format!("a listener on port {port}"), TIMEOUT, || {
            self.run_well("ss", &["-Hltn", &filter]).contains("LISTEN").then_some(())
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The holder, which is the namespace's first process, still runs, so this kill cannot fail.
        self.holder.kill().ok();
        self.holder.wait().ok();
    }
}

/// A running program in a namespace. Dropping this value kills the program, and shows its output if the test panics.
#[derive(Debug)]
pub struct Program {
    name: String,
    entered: Child,
    output: tempfile::NamedTempFile,
}

impl Program {
    pub(super) fn spawn(name: &str, command: &mut Command) -> Self {
        let output = tempfile::NamedTempFile::new().expect("a file for the output");
        let appending = || fs::OpenOptions::new().append(true).open(output.path()).expect("the file is ours");
        command.stdout(appending()).stderr(appending());
        let entered = command.spawn().expect("nsenter (util-linux) runs");
        Self { name: name.to_owned(), entered, output }
    }

    /// The program's standard output and standard error so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.output.path()).expect("the file is ours")).into_owned()
    }

    /// The file to which the program's output goes.
    pub fn output_path(&self) -> PathBuf {
        self.output.path().to_owned()
    }

    /// Waits for a line of output that contains all `words`, and returns it.
    pub fn wait_for_output(&self, words: &[&str]) -> String {
        wait_for(&format!("{} writes a line with {words:?}", self.name), TIMEOUT, || {
            self.output().lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
        })
    }

    /// The program's process id outside of the namespace.
    pub fn pid(&self) -> u32 {
        wait_for(&format!("{} starts", self.name), TIMEOUT, || child_of(self.entered.id()))
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("process ids are positive");
        kill_process(pid, signal).expect("it runs");
    }

    /// Returns the program's exit status, if the program has ended.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.entered.try_wait().expect("the child is ours")
    }

    /// Waits for the program's end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            assert!(Instant::now() < deadline, "{} has not ended after {timeout:?}:\n{}", self.name, self.output());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program may have ended by itself.
        self.entered.kill().ok();
        self.entered.wait().ok();
        if thread::panicking() {
            let output = self.output();
            let lines: Vec<&str> = output.lines().collect();
            let last = lines.len().saturating_sub(40);
            eprintln!("--- the last lines of {} ---\n{}\n---", self.name, lines[last..].join("\n"));
        }
    }
}

/// Returns the only child of a process. `None` if it has no child yet.
fn child_of(parent: u32) -> Option<u32> {
    fs::read_dir("/proc").expect("/proc is there").find_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent_of_it: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (parent_of_it == parent).then_some(pid)
    })
}
