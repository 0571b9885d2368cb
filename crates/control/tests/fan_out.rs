//! Many clients over real connections: a change quickly reaches every client that subscribed to it, and no other
//! client.
//!
//! `FAN_OUT_CLIENTS=1000 cargo test --release -p leno-control --test fan_out -- --nocapture` measures 1,000 clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use futures_util::stream::poll_fn;
use leno_control::publish::Publisher;
use leno_model::balance::Policy;
use leno_model::mesh::{Cluster, ClusterKey, Endpoint, Mesh};
use leno_model::protocol::Protocol;
use leno_model::settings::Settings;
use leno_xds::Kind;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tonic::Streaming;
use tonic::transport::Channel;

const SERVICES: u16 = 1_000;
/// Number of endpoints of each Service.
const ENDPOINTS: u8 = 10;
/// Number of changes that the test measures.
const CHANGES: u8 = 20;
/// Longest wait for an event: long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of incremental xDS.
struct Client {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Client {
    async fn connect(address: SocketAddr, number: usize) -> Self {
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("a URI");
        let channel = timeout(PATIENCE, endpoint.connect()).await.expect("in time").expect("the server listens");
        let (requests, mut queue) = mpsc::channel(4);
        let node = Node { id: format!("client-{number}"), ..Default::default() };
        let first = DeltaDiscoveryRequest { node: Some(node), ..Default::default() };
        requests.send(first).await.expect("there is room");
        let mut client = AggregatedDiscoveryServiceClient::new(channel);
        let stream = client.delta_aggregated_resources(poll_fn(move |cx| queue.poll_recv(cx))).await;
        Self { requests, responses: stream.expect("a stream").into_inner() }
    }

    async fn subscribe(&mut self, service: &ClusterKey) {
        let request = DeltaDiscoveryRequest {
            type_url: Kind::Endpoints.type_url().to_owned(),
            resource_names_subscribe: vec![service.to_string()],
            ..Default::default()
        };
        self.requests.send(request).await.expect("the stream is open");
    }

    /// The next response, acknowledged.
    async fn next(&mut self) -> DeltaDiscoveryResponse {
        let response = timeout(PATIENCE, self.responses.message()).await.expect("in time");
        let response = response.expect("no error").expect("the stream is open");
        let ack = DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            ..Default::default()
        };
        self.requests.send(ack).await.expect("the stream is open");
        response
    }
}

fn key(number: u16) -> ClusterKey {
    ClusterKey { namespace: "default".into(), service: format!("service-{number}").into(), port: 80 }
}

fn cluster(number: u16, endpoints: u8) -> Cluster {
    let [high, low] = number.to_be_bytes();
    let endpoint = |last: u8| Endpoint {
        // The address encodes the Service's number, in two bytes, and the endpoint's number.
        address: (Ipv4Addr::new(10, high, low, last), 8080).into(),
        zone: Some("a".into()),
        hostname: None,
        pod: Some(format!("pod-{number}-{last}").into()),
        controller: None,
        proxy: None,
    };
    Cluster {
        key: key(number),
        balancer: Policy::Latency,
        protocol: Protocol::Http2,
        settings: Settings::default(),
        retry_budget: None,
        objectives: None,
        cluster_ips: [Ipv4Addr::new(172, 16, high, low).into()].into(),
        endpoints: (0..endpoints).map(endpoint).collect(),
        unready_endpoints: Vec::new(),
    }
}

/// Makes a mesh whose first Service has `endpoints_of_first` endpoints. It shares no object with the mesh before, as
/// after a translation in a control plane.
fn mesh(endpoints_of_first: u8) -> Arc<Mesh> {
    let clusters = (0..SERVICES).map(|number| {
        let endpoints = if number == 0 { endpoints_of_first } else { ENDPOINTS };
        Arc::new(cluster(number, endpoints))
    });
    Arc::new(Mesh::new("default", clusters.collect(), Vec::new(), Vec::new(), Vec::new()))
}

fn clients() -> usize {
    std::env::var("FAN_OUT_CLIENTS").map_or(200, |text| text.parse().expect("a number of clients"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_reaches_all_who_asked_for_it_and_nobody_else() {
    let (meshes, receiver) = watch::channel(mesh(ENDPOINTS));
    let publisher = Publisher::new(mesh(ENDPOINTS), "cluster.local".parse().expect("a trust domain"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let following = publisher.clone();
    tokio::spawn(async move { following.follow(receiver).await });
    tokio::spawn(async move { publisher.serve(listener, None).await });

    let mut all = Vec::new();
    for number in 0..clients() {
        let mut client = Client::connect(address, number).await;
        client.subscribe(&key(0)).await;
        assert_eq!(client.next().await.resources.len(), 1);
        all.push(client);
    }
    let mut bystander = Client::connect(address, clients()).await;
    bystander.subscribe(&key(1)).await;
    bystander.next().await;

    let (arrived, mut arrivals) = mpsc::channel(1_024);
    for mut client in all {
        let arrived = arrived.clone();
        tokio::spawn(async move {
            for _ in 0..CHANGES {
                client.next().await;
                arrived.send(Instant::now()).await.expect("somebody counts");
            }
        });
    }
    let mut latencies = Vec::new();
    for change in 1..=CHANGES {
        let next = mesh(ENDPOINTS + change);
        let changed = Instant::now();
        meshes.send_replace(next);
        for _ in 0..clients() {
            let at = timeout(PATIENCE, arrivals.recv()).await.expect("in time").expect("clients run");
            latencies.push(at.duration_since(changed));
        }
    }
    latencies.sort();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    println!("{} clients, {SERVICES} Services: p50 {:?}, p99 {:?}, all {:?}", clients(), at(0.5), at(0.99), at(1.0));

    let more = timeout(Duration::from_millis(100), bystander.responses.message()).await;
    assert!(more.is_err(), "it did not ask for what changed: {more:?}");
}
