//! A workload: a namespace on the bridge, and a proxy once the workload is meshed.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::namespace::{Namespace, Program};
use super::{Mesh, PROXY_UID, TIMEOUT, TRUST_DOMAIN};
use crate::proxy::{Signal, wait_for};
use crate::scrape::Scrape;

/// Additional time for `leno-proxy` to end after its grace period.
const AFTER_GRACE: Duration = Duration::from_secs(3);

/// A workload; dereferences to its [`Namespace`].
#[derive(Debug)]
pub struct Workload {
    // Declared before the namespace, so that a failed test shows the proxy's log before the proxy is killed.
    proxy: Option<Program>,
    namespace: Namespace,
    name: String,
    number: u8,
    manifests: PathBuf,
    authority: PathBuf,
    access_log: tempfile::NamedTempFile,
}

impl Deref for Workload {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

impl Workload {
    pub(super) fn new(mesh: &Mesh, name: &str, number: u8, namespace: Namespace) -> Self {
        let access_log = tempfile::NamedTempFile::new().expect("a file for the access log");
        std::os::unix::fs::chown(access_log.path(), Some(PROXY_UID), Some(PROXY_UID)).expect("root may");
        let this = Self {
            proxy: None,
            namespace,
            name: name.to_owned(),
            number,
            manifests: mesh.manifests(),
            authority: mesh.authority(),
            access_log,
        };
        mesh.switch().connect(&format!("w{number}"), &this.namespace);
        let (v4, v6) = this.addresses();
        let script = format!(
            "ip address add {v4}/16 dev eth0
            ip -6 address add {v6}/64 dev eth0 nodad
            ip link set eth0 up
            ip route add default via 10.66.0.1
            ip -6 route add default via fd00:66::1"
        );
        this.run_well("sh", &["-ec", &script]);
        this
    }

    /// Starts the workload's proxy, with additional arguments, and redirects the workload's connections to the proxy.
    ///
    /// # Panics
    /// If the proxy is not ready in time.
    pub fn join(&mut self, arguments: &[&str]) {
        self.start_proxy(arguments);
        self.run_well("leno", &["intercept", "up", "--proxy-uid", &PROXY_UID.to_string()]);
    }

    /// Replaces the workload's proxy by a new one, with additional arguments. The proxy reads the mesh's manifests,
    /// unless the arguments contain `--control`.
    ///
    /// # Panics
    /// If the proxy is not ready in time.
    pub fn start_proxy(&mut self, arguments: &[&str]) {
        self.proxy = None;
        let mut command = self.namespace.command_as(Some(PROXY_UID), "leno-proxy");
        if !arguments.contains(&"--control") {
            command.arg("--config").arg(&self.manifests);
        }
        command.arg("--issuer").arg(&self.authority);
        command.args(["--identity", &self.identity(), "--outbound", "127.0.0.1:4140", "--outbound", "[::1]:4140"]);
        command.args(["--inbound", "[::]:4143", "--tunnel", "[::]:15008", "--access-log", "json"]);
        command.arg("--access-log-file").arg(self.access_log.path()).args(arguments);
        let mut proxy = Program::spawn(&format!("the proxy of {}", self.name), &mut command);
        wait_for(&format!("the proxy of {} is ready", self.name), TIMEOUT, || {
            if let Some(status) = proxy.status() {
                panic!("the proxy of {} ended at once, {status}:\n{}", self.name, proxy.output());
            }
            self.run("curl", &["-sf", "http://127.0.0.1:4191/ready"]).status.success().then_some(())
        });
        self.proxy = Some(proxy);
    }

    /// Kills the workload's proxy at once.
    pub fn kill_proxy(&mut self) {
        self.proxy().signal(Signal::KILL);
        self.proxy = None;
    }

    /// Sends SIGTERM to the workload's proxy, and waits for the proxy's end. `grace` must be the proxy's grace period.
    ///
    /// # Panics
    /// If the proxy does not end in time.
    pub fn drain_proxy(&mut self, grace: Duration) {
        let mut proxy = self.proxy.take().expect("it is meshed");
        proxy.signal(Signal::TERM);
        proxy.wait(grace + AFTER_GRACE);
    }

    /// Returns whether the workload has a proxy.
    pub fn is_meshed(&self) -> bool {
        self.proxy.is_some()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The workload's IPv4 address.
    pub fn address(&self) -> Ipv4Addr {
        self.addresses().0
    }

    /// The workload's IPv6 address.
    pub fn address_v6(&self) -> Ipv6Addr {
        self.addresses().1
    }

    fn addresses(&self) -> (Ipv4Addr, Ipv6Addr) {
        let number = self.number;
        (Ipv4Addr::new(10, 66, 0, number), Ipv6Addr::new(0xfd00, 0x66, 0, 0, 0, 0, 0, number.into()))
    }

    /// The workload's identity, as manifests write it.
    pub fn identity(&self) -> String {
        format!("ns/default/sa/{}", self.name)
    }

    /// The workload's identity, as certificates contain it.
    pub fn spiffe_id(&self) -> String {
        format!("spiffe://{TRUST_DOMAIN}/{}", self.identity())
    }

    /// The workload's proxy.
    ///
    /// # Panics
    /// If the workload has no proxy.
    pub fn proxy(&self) -> &Program {
        self.proxy.as_ref().unwrap_or_else(|| panic!("{} is meshed", self.name))
    }

    /// The log of the workload's proxy so far.
    pub fn log(&self) -> String {
        self.proxy().output()
    }

    /// The lines of the access log so far, from all proxies that the workload has had.
    pub fn access_log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.access_log.path()).expect("the file is ours");
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// Waits until the access log has a line with these fields, and returns it.
    pub fn wait_for_access(&self, fields: &[(&str, &str)]) -> Value {
        let text = |field: &Value| field.as_str().map_or_else(|| field.to_string(), str::to_owned);
        let has = |line: &Value, (name, value): &(&str, &str)| text(&line[*name]) == *value;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let lines = self.access_log();
            if let Some(line) = lines.iter().find(|line| fields.iter().all(|field| has(line, field))) {
                return line.clone();
            }
            assert!(Instant::now() < deadline, "the access log of {} has no {fields:?}:\n{lines:#?}", self.name);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the response of the proxy's admin endpoint to a GET.
    ///
    /// # Panics
    /// If the status is not 200.
    pub fn admin(&self, path: &str) -> String {
        self.run_well("curl", &["-sSf", &format!("http://127.0.0.1:4191{path}")])
    }

    /// The metrics of the workload's proxy.
    pub fn scrape(&self) -> Scrape {
        Scrape::parse(&self.admin("/metrics"))
    }

    /// Returns how often the proxy has read changed manifests with this result: `success` or `failure`.
    pub(super) fn reloads(&self, result: &str) -> f64 {
        self.scrape().sum("leno_config_reloads_total", &[&format!("result=\"{result}\"")])
    }
}
