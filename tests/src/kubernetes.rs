//! A real Kubernetes cluster: etcd, the API server and the controllers. For tests that need nodes, it also has nodes
//! that run Pods.
//!
//! `tests/kube` starts the cluster once for all tests of this process, and stops it when the process ends. The tests
//! use the cluster one after the other, because some of them kill the API server. Tests that need nodes can use another
//! cluster instead, which `LENO_KUBECONFIG` names. The tests ignore `KUBECONFIG`, because it usually names a cluster in
//! use.

mod capture;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

pub use capture::Capture;

use rustix::process::{Pid, Signal, kill_process};

use crate::mesh::skipped;
use crate::programs::{program, text};
use crate::proxy::{free_address, wait_for};

/// Exit code of `tests/kube/up` if the cluster's programs have not been built.
const NOT_BUILT: i32 = 3;

/// The cluster that all tests of this process share.
#[derive(Debug)]
enum Place {
    /// Started by `tests/kube`.
    Ours(Made),
    /// An external cluster, with the path of its kubeconfig.
    Given(PathBuf),
}

/// A cluster that `tests/kube` started.
#[derive(Debug)]
struct Made {
    nodes: u8,
    run: PathBuf,
    api: SocketAddr,
    etcd: SocketAddr,
}

/// Returns the path in `LENO_KUBECONFIG`: the kubeconfig of an external cluster that the tests may use. `None` if the
/// variable is not set.
///
/// # Panics
/// If the variable is not the absolute path of a file.
pub fn given() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("LENO_KUBECONFIG").filter(|path| !path.is_empty())?);
    assert!(path.is_absolute() && path.is_file(), "LENO_KUBECONFIG is {}; name a file, from / on", path.display());
    Some(path)
}

/// A test's exclusive access to the cluster. Other tests wait until this value is dropped.
#[derive(Debug)]
pub struct Cluster {
    place: &'static Place,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Returns a Kubernetes control plane without nodes, on loopback. The first test that calls this function starts
    /// the control plane. Returns `None`, with a message, if the cluster's programs are not built.
    ///
    /// # Panics
    /// If it does not start.
    pub fn get() -> Option<Self> {
        Self::of_nodes(0, "tests/kube/build")
    }

    /// Returns a Kubernetes cluster with two nodes that run Pods. The first test that calls this function starts the
    /// cluster. Returns `None`, with a message, if the cluster's programs are not built. Only root can create nodes,
    /// and only one process at a time can have nodes. If `LENO_KUBECONFIG` names a cluster, returns this cluster
    /// instead.
    ///
    /// # Panics
    /// If it does not start.
    pub fn with_nodes() -> Option<Self> {
        Self::of_nodes(2, "tests/kube/build nodes")
    }

    /// Returns whether `tests/kube` started the cluster: only then may tests kill its programs or cut its network.
    pub fn is_ours(&self) -> bool {
        matches!(self.place, Place::Ours(_))
    }

    /// Returns the only cluster of this process. All tests of the process must request the same number of nodes,
    /// because only the first request counts.
    fn of_nodes(nodes: u8, build: &str) -> Option<Self> {
        static PLACE: OnceLock<Option<Place>> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::new(());
        // A test that panics poisons the lock, but the cluster stays usable.
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

    /// Returns the details of a cluster that `tests/kube` started.
    ///
    /// # Panics
    /// If the cluster is external.
    fn made(&self) -> &Made {
        match self.place {
            Place::Ours(made) => made,
            Place::Given(path) => panic!("{} is the kubeconfig of somebody else's cluster", path.display()),
        }
    }

    /// The address of the API server.
    ///
    /// # Panics
    /// If the cluster is external.
    pub fn api(&self) -> SocketAddr {
        self.made().api
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        match self.place {
            Place::Ours(made) => made.run.join("admin.conf"),
            Place::Given(path) => path.clone(),
        }
    }

    /// Creates a namespace for one test, and waits until Pods can be created in it.
    pub fn namespace(&self, name: &str) {
        self.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
        let account = || self.try_kubectl(&["-n", name, "get", "serviceaccount", "default"]).status.success();
        wait_for("a service account", Duration::from_secs(120), || account().then_some(()));
    }

    /// Runs kubectl, which must succeed, and returns its standard output.
    ///
    /// # Panics
    /// If it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments);
        assert!(output.status.success(), "kubectl {arguments:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts kubectl in the background; the caller can read its output from the returned child.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_kubectl(&self, arguments: &[&str]) -> Child {
        let mut command = self.place.kubectl(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash runs")
    }

    /// Runs kubectl, which may fail.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Output {
        self.run_kubectl(arguments, Stdio::null(), "")
    }

    /// Applies a manifest.
    ///
    /// # Panics
    /// If the API server refuses it.
    pub fn apply(&self, manifest: &str) {
        let output = self.try_apply(manifest);
        assert!(output.status.success(), "kubectl apply: {}\n{manifest}", text(&output));
    }

    /// Applies a manifest; the API server may refuse it.
    pub fn try_apply(&self, manifest: &str) -> Output {
        self.run_kubectl(&["apply", "-f", "-"], Stdio::piped(), manifest)
    }

    /// Installs the Gateway API's CRDs.
    ///
    /// # Panics
    /// If that fails.
    pub fn install_gateway_api(&self) {
        let output = self.made().script("crds", &[]).output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Installs the CRD of XBackendTrafficPolicies, which only the experimental channel of the Gateway API has.
    ///
    /// # Panics
    /// If that fails.
    pub fn install_backend_traffic_policies(&self) {
        let arguments = ["experimental", "xbackendtrafficpolicies"];
        let output = self.made().script("crds", &arguments).output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Puts images, in OCI archives, on every node.
    ///
    /// # Panics
    /// If that fails, or the cluster is external.
    pub fn load(&self, images: &[PathBuf]) {
        let images: Vec<&str> = images.iter().map(|path| path.to_str().expect("UTF-8")).collect();
        let output = self.made().script("load", &images).output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Kills one of the cluster's programs.
    ///
    /// # Panics
    /// If it does not run, or the cluster is external.
    pub fn kill(&self, program: &str) {
        let output = self.made().script("stop", &[program]).output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Kills the process of a Pod that has `word` among its arguments. Finds the Pod's processes by their environment
    /// variable POD_NAME.
    ///
    /// # Panics
    /// If there is not exactly one such process, or the cluster is external.
    pub fn kill_in_pod(&self, pod: &str, word: &str) {
        assert!(self.is_ours(), "the nodes of an external cluster are other machines");
        let has = |file: &str, id: i32, text: &str| {
            // The file is missing if the process has ended since /proc was listed.
            let content = std::fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
            content.split(|&byte| byte == 0).any(|part| part == text.as_bytes())
        };
        let processes = std::fs::read_dir("/proc").expect("/proc is mounted");
        let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let name = format!("POD_NAME={pod}");
        let found: Vec<i32> = ids.filter(|&id| has("cmdline", id, word) && has("environ", id, &name)).collect();
        let [id] = found[..] else { panic!("{pod} has {} processes with {word}", found.len()) };
        kill_process(Pid::from_raw(id).expect("a process"), Signal::KILL).expect("it runs");
    }

    /// Starts every program that does not run.
    ///
    /// # Panics
    /// If a program does not start, or the cluster is external.
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
            // The namespace of `leno-control`, which an installation of Leno would create.
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

/// Returns the address of a free port such that the next higher port is free, too.
fn two_free_ports() -> SocketAddr {
    loop {
        let first = free_address();
        let second = first.port().checked_add(1);
        if second.is_some_and(|second| TcpListener::bind((Ipv4Addr::LOCALHOST, second)).is_ok()) {
            return first;
        }
    }
}
