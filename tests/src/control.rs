//! A running `leno-control` beside a [`Cluster`].

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

/// How long what is changed in the cluster may take to show: this machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take to end.
const GRACE_MS: u64 = 3_000;

/// A control plane that watches a cluster: ended when dropped, and its log shown if the test panics.
#[derive(Debug)]
pub struct Control {
    child: Child,
    admin: SocketAddr,
    probes: SocketAddr,
    xds: SocketAddr,
    identity: SocketAddr,
    webhooks: SocketAddr,
    /// Where `inject.yaml` is, and the trust bundle for a proxy beside it.
    config: TempDir,
    log: tempfile::NamedTempFile,
}

impl Control {
    /// Starts one and waits until it knows the cluster.
    ///
    /// # Panics
    /// When it does not start, or does not get ready.
    pub fn start(cluster: &Cluster) -> Self {
        let control = Self::start_early(cluster);
        control.wait_until_ready();
        control
    }

    /// Starts one, whose cluster may not be there yet.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_early(cluster: &Cluster) -> Self {
        Self::start_as(&cluster.kubeconfig())
    }

    /// Starts one that is to the cluster who a file for clients says.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_as(kubeconfig: &Path) -> Self {
        let [admin, probes, xds, identity, webhooks] = std::array::from_fn(|_| free_address());
        let config = TempDir::new().expect("a directory");
        let inject_config = config.path().join("inject.yaml");
        fs::write(&inject_config, "{clusterDomain: cluster.local}").expect("a file");
        let log = tempfile::NamedTempFile::new().expect("a file for the log");
        let child = Command::new(programs::program("leno-control"))
            .arg("--kubernetes")
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

    /// The trust bundle that it writes for a proxy beside it.
    ///
    /// # Errors
    /// While it has not.
    pub fn bundle_file(&self) -> io::Result<String> {
        fs::read_to_string(self.config.path().join("ca.crt"))
    }

    /// Asks where kubelets ask: status and body.
    ///
    /// # Errors
    /// When nobody listens or the answer is not HTTP.
    pub fn probe(&self, path: &str) -> io::Result<(u16, String)> {
        admin::get(self.probes, path)
    }

    /// Waits until it knows the cluster.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_until_ready(&self) {
        let ready = || self.get("/ready").is_ok_and(|(status, _)| status == 200);
        wait_for("leno-control is ready", PATIENCE, || ready().then_some(()));
    }

    /// Where xDS is served.
    pub fn xds(&self) -> SocketAddr {
        self.xds
    }

    /// Where certificates are issued.
    pub fn identity(&self) -> SocketAddr {
        self.identity
    }

    /// Where API servers ask.
    pub fn webhooks(&self) -> SocketAddr {
        self.webhooks
    }

    /// Says anew what proxies are set up with, as a ConfigMap that is mounted does.
    ///
    /// # Panics
    /// When that cannot be written.
    pub fn write_inject_config(&self, text: &str) {
        let (next, path) = (self.config.path().join("next"), self.config.path().join("inject.yaml"));
        fs::write(&next, text).and_then(|()| fs::rename(&next, path)).expect("a file");
    }

    /// Asks the admin listener: status and body.
    ///
    /// # Errors
    /// When nobody listens or the answer is not HTTP.
    pub fn get(&self, path: &str) -> io::Result<(u16, String)> {
        admin::get(self.admin, path)
    }

    /// What it knows now.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn config(&self) -> Value {
        let (status, body) = self.get("/config").expect("the admin listener answers");
        assert_eq!(status, 200, "GET /config: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// The endpoints of a cluster, as `address identity` where there is a proxy; nothing if there is no such cluster.
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
    /// When it does not.
    pub fn wait_for_endpoints(&self, cluster: &str, wanted: &[&str]) {
        let is_so = || self.endpoints(cluster).is_some_and(|endpoints| endpoints == wanted);
        wait_for(&format!("{cluster} has {wanted:?}"), PATIENCE, || is_so().then_some(()));
    }

    /// Waits until `question` is answered with yes by what is known.
    ///
    /// # Panics
    /// When it is not.
    pub fn wait_until(&self, what: &str, question: impl Fn(&Value) -> bool) {
        wait_for(what, PATIENCE, || question(&self.config()).then_some(()));
    }

    /// All that it logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log.path()).expect("the log is text")
    }

    /// Waits until the log has a line with every one of `words`, and returns that line.
    ///
    /// # Panics
    /// When there is none.
    pub fn wait_for_log(&self, words: &[&str]) -> String {
        let found = || self.log().lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned);
        wait_for(&format!("a log line with {words:?}"), PATIENCE, found)
    }

    /// Kills it, as a crash would.
    ///
    /// # Panics
    /// When it does not run.
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
        // It gives its Lease up, so that the next test need not wait. One that has ended already cannot be told.
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
