//! A running `leno-control` that uses a [`Cluster`].

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::admin;
use crate::kubernetes::Cluster;
use crate::programs;
use crate::proxy::{free_address, wait_for};

/// Longest time until the control plane reacts to a change in the cluster, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest time from SIGTERM until the control plane ends.
const GRACE_MS: u64 = 3_000;

/// A control plane that watches a cluster. Dropping this value ends the control plane, and shows its log if the test
/// panics.
#[derive(Debug)]
pub struct Control {
    child: Child,
    admin: SocketAddr,
    probes: SocketAddr,
    xds: SocketAddr,
    identity: SocketAddr,
    webhooks: SocketAddr,
    /// Directory of `inject.yaml` and of `ca.crt`, the trust bundle for the control plane's own proxy.
    config: TempDir,
    log: tempfile::NamedTempFile,
}

impl Control {
    /// Starts a control plane, and waits until it has read the cluster.
    ///
    /// # Panics
    /// If it does not start, or does not become ready.
    pub fn start(cluster: &Cluster) -> Self {
        let control = Self::start_early(cluster);
        control.wait_until_ready();
        control
    }

    /// Starts a control plane, and does not wait until it is ready: its cluster may not be reachable yet.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_early(cluster: &Cluster) -> Self {
        Self::start_as(&cluster.kubeconfig())
    }

    /// Starts a control plane that connects to the API server with this kubeconfig.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_as(kubeconfig: &Path) -> Self {
        let [admin, probes, xds, identity, webhooks] = std::array::from_fn(|_| free_address());
        let config = TempDir::new().expect("a directory");
        let inject_config = config.path().join("inject.yaml");
        fs::write(&inject_config, "{clusterDomain: cluster.local}").expect("a file");
        let log = tempfile::NamedTempFile::new().expect("a file for the log");
        let child = Command::new(programs::program("leno-control"))
            .args(["--kubernetes", "--grace=0s"])
            .args(["--admin", &admin.to_string(), "--probes", &probes.to_string(), "--xds", &xds.to_string()])
            .args(["--identity-service", &identity.to_string()])
            .args(["--webhooks", &webhooks.to_string(), "--inject-config"])
            .arg(&inject_config)
            .arg("--trust-bundle")
            .arg(config.path().join("ca.crt"))
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.reopen().expect("the log's file"))
            .spawn()
            .expect("leno-control starts: `cargo build --release -p leno-control` builds it");
        Self { child, admin, probes, xds, identity, webhooks, config, log }
    }

    /// Returns the trust bundle that the control plane writes for its own proxy.
    ///
    /// # Errors
    /// If the control plane has not written the file yet.
    pub fn bundle_file(&self) -> io::Result<String> {
        fs::read_to_string(self.config.path().join("ca.crt"))
    }

    /// Requests a page at the address for kubelets' probes, and returns its status and body.
    ///
    /// # Errors
    /// If the connection is refused, or the answer is not HTTP.
    pub fn probe(&self, path: &str) -> io::Result<(u16, String)> {
        admin::get(self.probes, path)
    }

    /// Waits until the control plane has read the cluster.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait_until_ready(&self) {
        let ready = || self.get("/ready").is_ok_and(|(status, _)| status == 200);
        wait_for("leno-control is ready", PATIENCE, || ready().then_some(()));
    }

    /// The address of the admin endpoint.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The address of xDS.
    pub fn xds(&self) -> SocketAddr {
        self.xds
    }

    /// The address of the identity service.
    pub fn identity(&self) -> SocketAddr {
        self.identity
    }

    /// The address of the webhooks.
    pub fn webhooks(&self) -> SocketAddr {
        self.webhooks
    }

    /// Replaces the injector's configuration, as the kubelet does for a mounted ConfigMap.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn write_inject_config(&self, text: &str) {
        let (next, path) = (self.config.path().join("next"), self.config.path().join("inject.yaml"));
        fs::write(&next, text).and_then(|()| fs::rename(&next, path)).expect("a file");
    }

    /// Requests a page of the admin endpoint, and returns its status and body.
    ///
    /// # Errors
    /// If the connection is refused, or the answer is not HTTP.
    pub fn get(&self, path: &str) -> io::Result<(u16, String)> {
        admin::get(self.admin, path)
    }

    /// Returns the page /config.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn config(&self) -> Value {
        let (status, body) = self.get("/config").expect("the admin listener answers");
        assert_eq!(status, 200, "GET /config: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Returns the endpoints of a cluster: `address identity` for an endpoint with a proxy, else `address`. Returns
    /// `None` if the cluster does not exist.
    pub fn endpoints(&self, cluster: &str) -> Option<Vec<String>> {
        let config = self.config();
        let found = config["mesh"]["clusters"].as_array()?.iter().find(|known| known["key"] == cluster)?;
        let shown = |endpoint: &Value| {
            let address = endpoint["address"].as_str().unwrap_or_default();
            match endpoint["proxy"]["identity"].as_str() {
                Some(identity) => format!("{address} {identity}"),
                None => address.to_owned(),
            }
        };
        Some(found["endpoints"].as_array()?.iter().map(shown).collect())
    }

    /// Waits until a cluster has exactly these endpoints.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait_for_endpoints(&self, cluster: &str, wanted: &[&str]) {
        let is_so = || self.endpoints(cluster).is_some_and(|endpoints| endpoints == wanted);
        wait_for(&format!("{cluster} has {wanted:?}"), PATIENCE, || is_so().then_some(()));
    }

    /// Waits until `question` returns true for the content of /config.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait_until(&self, what: &str, question: impl Fn(&Value) -> bool) {
        wait_for(what, PATIENCE, || question(&self.config()).then_some(()));
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.log.path()).expect("the log is text")
    }

    /// Waits for a line of the log that contains all `words`, and returns it.
    ///
    /// # Panics
    /// If no such line appears in time.
    pub fn wait_for_log(&self, words: &[&str]) -> String {
        let found = || self.log().lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned);
        wait_for(&format!("a log line with {words:?}"), PATIENCE, found)
    }

    /// Kills the control plane, like a crash.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is ours");
    }

    /// Resident memory now, in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the kernel says how much memory");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number of KiB")
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // On SIGTERM the control plane releases its Lease, so that the next test need not wait. The signal fails if the
        // control plane has ended already.
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        let ended = (0..GRACE_MS).step_by(10).any(|_| {
            thread::sleep(Duration::from_millis(10));
            self.child.try_wait().is_ok_and(|status| status.is_some())
        });
        if !ended {
            self.child.kill().ok();
            self.child.wait().ok();
        }
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(60);
            eprintln!("--- the last lines of leno-control's log ---\n{}\n---", lines[last..].join("\n"));
        }
    }
}
