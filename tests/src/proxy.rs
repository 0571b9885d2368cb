//! A running `leno-proxy`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, PipeReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::kill_process;

pub use rustix::process::{Pid, Signal};

use crate::admin;
use crate::manifests::{Directory, Service};
use crate::programs;
use crate::scrape::Scrape;

/// Longest time until a proxy serves its first configuration.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns a loopback address on which nothing listens. Each call returns another address.
pub fn free_address() -> SocketAddr {
    leno_lab::child::free_address().expect("a free port")
}

/// A running proxy. Dropping this value kills the proxy, and shows its log if the test panics.
#[derive(Debug)]
pub struct Proxy {
    child: Child,
    directory: Directory,
    outbound: SocketAddr,
    admin: SocketAddr,
    log: tempfile::NamedTempFile,
    /// The reading end of the log's pipe, if the log goes to a pipe. It stays open, but no program reads from it.
    _unread: Option<PipeReader>,
}

impl Proxy {
    /// Starts a proxy for `services` and waits until it is ready.
    pub fn start(services: &[Service]) -> Self {
        Self::start_with(free_address(), services, &[])
    }

    /// Starts a proxy on the address `outbound`, with more `arguments`, and waits until it is ready.
    pub fn start_with(outbound: SocketAddr, services: &[Service], arguments: &[&str]) -> Self {
        let directory = Directory::new(services);
        let source = ["--config".as_ref(), directory.path().as_os_str()].map(ToOwned::to_owned);
        let mut proxy = Self::spawn(outbound, directory, &source, arguments);
        proxy.wait_until_ready();
        proxy
    }

    /// Starts a proxy under a supervisor, and waits until the proxy is ready. The child process is the supervisor.
    pub fn start_supervised(services: &[Service], arguments: &[&str]) -> Self {
        let directory = Directory::new(services);
        let words = ["supervise".into(), "--config".into(), directory.path().as_os_str().to_owned()];
        let mut proxy = Self::spawn(free_address(), directory, &words, arguments);
        proxy.wait_until_ready();
        proxy
    }

    /// Returns the process that the supervisor runs, if it runs one now.
    pub fn supervised(&self) -> Option<Pid> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
    }

    /// Starts a proxy with more `arguments`, and waits until it is ready. The proxy's log goes to a pipe that no
    /// program reads.
    pub fn start_with_unread_log(services: &[Service], arguments: &[&str]) -> Self {
        let directory = Directory::new(services);
        let source = ["--config".as_ref(), directory.path().as_os_str()].map(ToOwned::to_owned);
        let (reader, writer) = io::pipe().expect("a pipe");
        let mut proxy = Self::spawn_logging(free_address(), directory, &source, arguments, Some(writer.into()));
        proxy._unread = Some(reader);
        proxy.wait_until_ready();
        proxy
    }

    /// Starts a proxy that uses a control plane, and waits until the proxy is ready. The proxy does not use its
    /// configuration directory.
    pub fn start_asking(control: SocketAddr, arguments: &[&str]) -> Self {
        let mut proxy = Self::start_asking_early(control, arguments);
        proxy.wait_until_ready();
        proxy
    }

    /// Starts a proxy that uses a control plane, and does not wait until the proxy is ready: the control plane may
    /// start later.
    pub fn start_asking_early(control: SocketAddr, arguments: &[&str]) -> Self {
        let source = ["--control".into(), control.to_string().into()];
        Self::spawn(free_address(), Directory::new(&[]), &source, arguments)
    }

    fn spawn(outbound: SocketAddr, directory: Directory, source: &[OsString], arguments: &[&str]) -> Self {
        Self::spawn_logging(outbound, directory, source, arguments, None)
    }

    /// Starts a proxy whose log goes to `stderr`, by default to a file.
    fn spawn_logging(
        outbound: SocketAddr,
        directory: Directory,
        source: &[OsString],
        arguments: &[&str],
        stderr: Option<Stdio>,
    ) -> Self {
        let admin = free_address();
        let log = tempfile::NamedTempFile::new().expect("a file for the log");
        let child = Command::new(programs::program("leno-proxy"))
            .args(source)
            .args(["--outbound", &outbound.to_string(), "--admin", &admin.to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr.unwrap_or_else(|| log.reopen().expect("the log's file").into()))
            .spawn()
            .expect("leno-proxy starts: `cargo build --release -p leno-proxy` builds it");
        Self { child, directory, outbound, admin, log, _unread: None }
    }

    /// Waits until the proxy accepts calls.
    ///
    /// # Panics
    /// If the proxy is not ready in time, or has ended.
    pub fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.get("/ready").is_ok_and(|(status, _)| status == 200) {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                panic!("leno-proxy ended at once: {status}");
            }
            assert!(Instant::now() < deadline, "leno-proxy is not ready after {START_TIMEOUT:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The address for clients.
    pub fn outbound(&self) -> SocketAddr {
        self.outbound
    }

    /// The address of the admin endpoint.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The directory of its configuration.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Requests a page of the admin endpoint, and returns its status and body.
    ///
    /// # Errors
    /// If the connection is refused, or the answer is not HTTP.
    pub fn get(&self, path: &str) -> io::Result<(u16, String)> {
        admin::get(self.admin, path)
    }

    pub fn scrape(&self) -> Scrape {
        let (status, text) = self.get("/metrics").expect("the admin listener answers");
        assert_eq!(status, 200, "GET /metrics: {text}");
        Scrape::parse(&text)
    }

    /// Resident memory now, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.memory_kib("VmRSS:")
    }

    /// The largest resident memory so far, in KiB.
    pub fn peak_kib(&self) -> u64 {
        self.memory_kib("VmHWM:")
    }

    fn memory_kib(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the proxy runs");
        let line = status.lines().find(|line| line.starts_with(field)).expect("the kernel says how much memory");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number of KiB")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.log.path()).expect("the log is text")
    }

    /// Waits for a line of the log that contains all `words`, and returns it.
    pub fn wait_for_log(&self, words: &[&str]) -> String {
        self.wait_for_log_within(words, Duration::from_secs(20))
    }

    /// Waits for at most `timeout` for a line of the log that contains all `words`, and returns it.
    pub fn wait_for_log_within(&self, words: &[&str], timeout: Duration) -> String {
        let found = || self.log().lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned);
        wait_for(&format!("a log line with {words:?}"), timeout, found)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the proxy runs");
    }

    /// Waits for the end of the process, for at most `timeout`. `None` if the process still runs.
    pub fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            let status = self.child.try_wait().expect("the child is ours");
            if status.is_some() || Instant::now() >= deadline {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Ignore an error: the proxy may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(60);
            eprintln!("--- the last lines of leno-proxy's log ---\n{}\n---", lines[last..].join("\n"));
        }
    }
}

/// Calls `question` every few milliseconds until it returns a value.
///
/// # Panics
/// If `question` returns no value within `timeout`. The message names `what`, the event for which the caller waits.
pub fn wait_for<T>(what: &str, timeout: Duration, mut question: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not after {timeout:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
