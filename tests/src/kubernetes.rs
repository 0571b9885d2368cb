//! A real Kubernetes cluster: etcd, the API server and the controllers, and where a test asks for them nodes that run Pods.
//!
//! `tests/kube` brings it up once for all tests of this process, and takes it down when the process ends. Tests have it one
//! after the other, since some of them kill the API server. What needs nodes can be done on somebody else's cluster instead,
//! which `LENO_KUBECONFIG` names; `KUBECONFIG` says nothing here, since most people's is that of a cluster they work with.

mod capture;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

pub use capture::Capture;

use crate::mesh::skipped;
use crate::programs::{program, text};
use crate::proxy::{free_address, wait_for};

/// What `tests/kube/up` ends with where the cluster's programs have not been built.
const NOT_BUILT: i32 = 3;

/// The cluster of this process.
#[derive(Debug)]
enum Place {
    /// Brought up by `tests/kube`.
    Ours(Made),
    /// Somebody else's, by its kubeconfig.
    Given(PathBuf),
}

/// A cluster that `tests/kube` brought up.
#[derive(Debug)]
struct Made {
    nodes: u8,
    run: PathBuf,
    api: SocketAddr,
    etcd: SocketAddr,
}

/// The kubeconfig of a cluster that is somebody else's and may be tested on.
///
/// # Panics
/// When there is no such file.
pub fn given() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("LENO_KUBECONFIG").filter(|path| !path.is_empty())?);
    assert!(path.is_absolute() && path.is_file(), "LENO_KUBECONFIG is {}; name a file, from / on", path.display());
    Some(path)
}

/// The cluster, for one test at a time.
#[derive(Debug)]
pub struct Cluster {
    place: &'static Place,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// A control plane without nodes, on loopback, brought up if this is the first test that needs it; nothing where its
    /// programs are not built, which is said aloud.
    ///
    /// # Panics
    /// When it does not start.
    pub fn get() -> Option<Self> {
        Self::of_nodes(0, "tests/kube/build")
    }

    /// The same with two nodes, which run Pods. Only root can have them, and one process at a time. Where `LENO_KUBECONFIG`
    /// names a cluster it is that one.
    ///
    /// # Panics
    /// When it does not start.
    pub fn with_nodes() -> Option<Self> {
        Self::of_nodes(2, "tests/kube/build nodes")
    }

    /// Whether it is of `tests/kube`: its programs and its wires are ours, and may be broken.
    pub fn is_ours(&self) -> bool {
        matches!(self.place, Place::Ours(_))
    }

    /// All tests of a process want the same number of nodes.
    fn of_nodes(nodes: u8, build: &str) -> Option<Self> {
        static PLACE: OnceLock<Option<Place>> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::new(());
        // A test that failed leaves the cluster as good as it was.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let place = || match given().filter(|_| nodes > 0) {
            Some(kubeconfig) => Some(Place::Given(kubeconfig)),
            None => Made::up(nodes).map(Place::Ours),
        };
        let place = PLACE.get_or_init(place).as_ref();
        if place.is_none() {
            skipped(&format!("there is no Kubernetes with {nodes} nodes; type {build}"));
        }
        let cluster = Self { place: place?, _turn: turn };
        if cluster.is_ours() {
            cluster.start();
        }
        Some(cluster)
    }

    /// The cluster that was made for the tests.
    ///
    /// # Panics
    /// When it is somebody else's.
    fn made(&self) -> &Made {
        match self.place {
            Place::Ours(made) => made,
            Place::Given(path) => panic!("{} is the kubeconfig of somebody else's cluster", path.display()),
        }
    }

    /// The address of the API server.
    ///
    /// # Panics
    /// When it is somebody else's cluster.
    pub fn api(&self) -> SocketAddr {
        self.made().api
    }

    /// What clients need to reach it as an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        match self.place {
            Place::Ours(made) => made.run.join("admin.conf"),
            Place::Given(path) => path.clone(),
        }
    }

    /// Makes a namespace for one test, and waits until Pods can be made in it.
    pub fn namespace(&self, name: &str) {
        self.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
        let account = || self.try_kubectl(&["-n", name, "get", "serviceaccount", "default"]).status.success();
        wait_for("a service account", Duration::from_secs(30), || account().then_some(()));
    }

    /// Runs kubectl, which must succeed: what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments);
        assert!(output.status.success(), "kubectl {arguments:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts kubectl and goes on; its output is the caller's.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_kubectl(&self, arguments: &[&str]) -> Child {
        let mut command = self.place.kubectl(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash runs")
    }

    /// Runs kubectl.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Output {
        self.run_kubectl(arguments, Stdio::null(), "")
    }

    /// Applies a manifest.
    ///
    /// # Panics
    /// When the API server refuses it.
    pub fn apply(&self, manifest: &str) {
        let output = self.try_apply(manifest);
        assert!(output.status.success(), "kubectl apply: {}\n{manifest}", text(&output));
    }

    /// Applies a manifest that the API server may refuse.
    pub fn try_apply(&self, manifest: &str) -> Output {
        self.run_kubectl(&["apply", "-f", "-"], Stdio::piped(), manifest)
    }

    /// Installs the Gateway API's CRDs.
    ///
    /// # Panics
    /// When that fails.
    pub fn install_gateway_api(&self) {
        let output = self.made().script("crds", &[]).output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Puts images, in OCI archives, on every node.
    ///
    /// # Panics
    /// When that fails, or it is somebody else's cluster.
    pub fn load(&self, images: &[PathBuf]) {
        let images: Vec<&str> = images.iter().map(|path| path.to_str().expect("UTF-8")).collect();
        let output = self.made().script("load", &images).output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Kills one of its programs.
    ///
    /// # Panics
    /// When it does not run, or it is somebody else's cluster.
    pub fn kill(&self, program: &str) {
        let output = self.made().script("stop", &[program]).output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Starts what does not run.
    ///
    /// # Panics
    /// When something does not start, or it is somebody else's cluster.
    pub fn start(&self) {
        let output = self.made().script("up", &[&self.made().nodes.to_string()]).output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output));
    }

    fn run_kubectl(&self, arguments: &[&str], stdin: Stdio, input: &str) -> Output {
        let mut child = self
            .place
            .kubectl(arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bash runs");
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).expect("kubectl reads");
        }
        child.wait_with_output().expect("kubectl ends")
    }
}

impl Place {
    fn kubectl(&self, arguments: &[&str]) -> Command {
        match self {
            Self::Ours(made) => made.script("kubectl", arguments),
            Self::Given(kubeconfig) => {
                let mut command = Command::new(program("kubectl"));
                command.args(arguments).env("KUBECONFIG", kubeconfig);
                command
            }
        }
    }
}

impl Made {
    fn up(nodes: u8) -> Option<Self> {
        let run = std::env::temp_dir().join(format!("leno-kube-{}", std::process::id()));
        let made = Self { nodes, run, api: free_address(), etcd: two_free_ports() };
        let [wanted, process] = [nodes.to_string(), std::process::id().to_string()];
        let output = made.script("up", &[&wanted, "--while", &process]).output().expect("bash runs");
        if output.status.code() == Some(NOT_BUILT) {
            return None;
        }
        assert!(output.status.success(), "tests/kube/up: {}", text(&output));
        if nodes == 0 {
            // The control plane's own, which an installation brings along.
            let output = made.script("kubectl", &["create", "namespace", "leno"]).output().expect("bash runs");
            assert!(output.status.success(), "{}", text(&output));
        }
        Some(made)
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("kube").join(name));
        command
            .args(arguments)
            .env("LENO_KUBE_RUN", &self.run)
            .env("LENO_KUBE_API_PORT", self.api.port().to_string())
            .env("LENO_KUBE_ETCD_PORT", self.etcd.port().to_string());
        command
    }
}

/// A port of this machine that is free, and so is the one after it.
fn two_free_ports() -> SocketAddr {
    loop {
        let first = free_address();
        let second = first.port().checked_add(1);
        if second.is_some_and(|second| TcpListener::bind((Ipv4Addr::LOCALHOST, second)).is_ok()) {
            return first;
        }
    }
}
