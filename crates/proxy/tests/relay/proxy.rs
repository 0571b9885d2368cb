//! A proxy with one worker and without a control thread: the test gives the worker its mesh and its commands.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::frame::kind;
use leno_model::discovery::Subject;
use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::{Draft, Mesh};
use leno_model::translate::{Translation, translate};
use leno_proxy::access_log::Outlet;
use leno_proxy::worker::{WorkerConfig, WorkerHandle, bind_workers};
use leno_relay::access_log::AccessLog;
use leno_relay::limits::Limits;
use leno_relay::metrics::WorkerMetrics;
use leno_relay::{ClusterExplanation, Door, OpenCalls, Settings, Usage};

use tokio::sync::mpsc;

use crate::peer::{PATIENCE, Peer, Server};

pub(crate) struct Proxy {
    worker: WorkerHandle,
    pub(crate) metrics: Arc<WorkerMetrics>,
}

impl Proxy {
    /// A worker whose mesh has the Service `echo` with these endpoints.
    pub(crate) fn start(endpoints: &[SocketAddr]) -> Self {
        Self::start_with(endpoints, "", &[])
    }

    /// Like [`Self::start`], with an annotation of the Service and with limits.
    pub(crate) fn start_with(endpoints: &[SocketAddr], annotation: &str, limits: &[(&str, &str)]) -> Self {
        Self::start_in(mesh("echo", endpoints, annotation), limits)
    }

    /// A worker with this mesh.
    pub(crate) fn start_in(mesh: Arc<Mesh>, limits: &[(&str, &str)]) -> Self {
        Self::spawn(mesh, None, limits)
    }

    /// Starts a worker with an empty mesh, so that it must ask about each destination. Returns the receiver of its
    /// questions, too.
    pub(crate) fn start_asking(limits: &[(&str, &str)]) -> (Self, mpsc::Receiver<Subject>) {
        let (questions, asked) = mpsc::channel(16);
        (Self::spawn(Arc::new(Mesh::empty().answering([])), Some(questions), limits), asked)
    }

    /// Like [`Self::start_asking`], for a worker of inbound calls.
    pub(crate) fn start_called(limits: &[(&str, &str)]) -> (Self, mpsc::Receiver<Subject>) {
        let (questions, asked) = mpsc::channel(16);
        let mesh = Arc::new(Mesh::empty().answering([]));
        (Self::spawn_at(&[Door::Inbound], mesh, Some(questions), limits), asked)
    }

    /// A worker with an outbound listener for its own application and an inbound listener for other clients, and the
    /// addresses of both listeners.
    pub(crate) fn start_between(mesh: Arc<Mesh>, limits: &[(&str, &str)]) -> (Self, SocketAddr, SocketAddr) {
        let proxy = Self::spawn_at(&[Door::Outbound, Door::Inbound], mesh, None, limits);
        let [outbound, inbound] = [0, 1].map(|place| proxy.worker.listening()[place].1);
        (proxy, outbound, inbound)
    }

    fn spawn(mesh: Arc<Mesh>, discovery: Option<mpsc::Sender<Subject>>, limits: &[(&str, &str)]) -> Self {
        Self::spawn_at(&[Door::Outbound], mesh, discovery, limits)
    }

    fn spawn_at(
        doors: &[Door],
        mesh: Arc<Mesh>,
        discovery: Option<mpsc::Sender<Subject>>,
        limits: &[(&str, &str)],
    ) -> Self {
        let metrics = WorkerMetrics::new();
        let mut set = Limits::default();
        for (name, value) in limits {
            set.set(name, value).expect("a limit");
        }
        let budget_kib = match set.relay.memory_budget_kib {
            0 => 512 << 10,
            kib => kib as usize,
        };
        let address = "127.0.0.1:0".parse().expect("an address");
        let doors: Vec<_> = doors.iter().map(|&door| (door, address)).collect();
        let config = WorkerConfig {
            workers: 1,
            memory_budget_bytes: budget_kib << 10,
            index: 0,
            listen: bind_workers(&doors, 1).expect("ports are free").remove(0),
            identity: None,
            discovery,
            standing: Arc::default(),
            settings: Settings::default(),
            access_log: AccessLog::off(),
            outlet: Outlet::default(),
            limits: Arc::new(set),
            metrics: metrics.clone(),
            tracing: None,
            spent_chains: Arc::default(),
            seed: 1,
        };
        let worker = WorkerHandle::spawn(config, mesh).expect("a worker");
        Self { worker, metrics }
    }

    pub(crate) fn connect(&self) -> Peer {
        Peer::connect(self.address())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.worker.listening()[0].1
    }

    pub(crate) fn set_mesh(&self, mesh: Arc<Mesh>) {
        self.worker.set_mesh(mesh);
    }

    /// Applies the changes of a draft to the worker's mesh.
    pub(crate) fn change_mesh(&self, draft: &mut Draft) {
        let (mesh, changes) = draft.take();
        self.worker.change_mesh(mesh, Arc::new(changes));
    }

    /// The subjects that calls use, as the worker reports.
    pub(crate) fn usage(&self) -> Usage {
        self.worker.usage().blocking_recv().expect("a worker that runs")
    }

    /// The worker's report about calls that have been in flight for longer than `longer_than`.
    pub(crate) fn open_calls(&self, longer_than: Duration) -> OpenCalls {
        self.worker.open_calls(longer_than).blocking_recv().expect("the worker runs")
    }

    /// The worker's report about the only cluster in use.
    pub(crate) fn explain(&self) -> ClusterExplanation {
        let mut clusters = self.worker.explain().blocking_recv().expect("a worker that runs");
        assert_eq!(clusters.len(), 1, "clusters in use");
        clusters.remove(0)
    }

    /// Number of calls that wait for connections.
    pub(crate) fn waiting_calls(&self) -> usize {
        self.explain().endpoints.iter().map(|endpoint| endpoint.waiting).sum()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.worker.drain(Duration::ZERO);
    }
}

/// A call that a client has sent, on stream 1, and that the only endpoint of `echo` has received.
pub(crate) struct CallInFlight {
    pub(crate) proxy: Proxy,
    pub(crate) server: Server,
    pub(crate) client: Peer,
    pub(crate) endpoint: Peer,
    /// The call's stream at the endpoint.
    pub(crate) stream: u32,
}

impl CallInFlight {
    /// Starts a proxy, sends `request` from a client, and waits until the endpoint receives it.
    pub(crate) fn start(request: &[u8]) -> Self {
        Self::start_with(request, "", &[])
    }

    /// Like [`Self::start`], with an annotation of the Service and with limits.
    pub(crate) fn start_with(request: &[u8], annotation: &str, limits: &[(&str, &str)]) -> Self {
        let server = Server::start();
        let proxy = Proxy::start_with(&[server.address()], annotation, limits);
        let mut client = proxy.connect();
        client.send(request);
        let mut endpoint = server.accept();
        let stream = endpoint.expect(kind::HEADERS).stream;
        Self { proxy, server, client, endpoint, stream }
    }
}

/// A mesh of one Service with port 80.
pub(crate) fn mesh(name: &str, endpoints: &[SocketAddr], annotation: &str) -> Arc<Mesh> {
    mesh_of(&service(name, endpoints, annotation))
}

/// Returns a mesh of one Service like [`mesh`], as the answer of the control plane to questions about these subjects.
pub(crate) fn answer_to(subjects: &[Subject], name: &str, endpoints: &[SocketAddr]) -> Arc<Mesh> {
    Arc::new(owned_mesh(&service(name, endpoints, "")).answering(subjects.iter().cloned()))
}

/// The manifests of a Service with port 80. The default of the connect timeout is 20 s here, because the machine may
/// stall for seconds; `annotation` may set another timeout.
pub(crate) fn service(name: &str, endpoints: &[SocketAddr], annotation: &str) -> String {
    let patient = "leno.dev/connect-timeout: 20s";
    let annotation =
        if annotation.contains("connect-timeout") { annotation } else { &format!("{patient}, {annotation}") };
    let mut text = format!(
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  annotations: {{{annotation}}}\n\
         spec:\n  ports:\n  - port: 80\n"
    );
    for (i, endpoint) in endpoints.iter().enumerate() {
        text += &format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
             metadata:\n  name: {name}-{i}\n  labels: {{kubernetes.io/service-name: {name}}}\n\
             ports:\n- port: {}\nendpoints:\n- addresses: [{}]\n",
            endpoint.port(),
            endpoint.ip()
        );
    }
    text
}

/// The mesh that manifests describe.
pub(crate) fn mesh_of(manifests: &str) -> Arc<Mesh> {
    Arc::new(owned_mesh(manifests))
}

/// The mesh that manifests describe. The manifests must refer to missing objects.
pub(crate) fn incomplete_mesh_of(manifests: &str) -> Arc<Mesh> {
    let translation = translated(manifests);
    assert!(!translation.problems.is_empty(), "nothing is missing");
    Arc::new(translation.mesh)
}

fn owned_mesh(manifests: &str) -> Mesh {
    let translation = translated(manifests);
    assert!(translation.problems.is_empty(), "{:?}", translation.problems);
    translation.mesh
}

fn translated(manifests: &str) -> Translation {
    let file = SourceFile { path: "mesh.yaml".to_owned(), text: manifests.to_owned() };
    let objects = parse_file(&file, "default").expect("a manifest without mistakes").objects;
    translate(&objects, "default")
}

/// Waits for a condition that must become true.
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < PATIENCE, "not true in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
