//! Tests that a client reads the same mesh that the control plane has.

use std::net::SocketAddr;
use std::sync::Arc;

use fastrand::Rng;
use leno_model::mesh::{Cluster, ClusterKey, EndpointProxy, Mesh, MeshedPod};
use leno_model::proxy;
use leno_model::spiffe::TrustDomain;
use prost::Message;

use crate::fixtures::{ENVOY, GRPC, random_mesh};
use crate::listener::Destination;
use crate::view::{Dialect, View};
use crate::{cluster, endpoints, listener};

/// Number of random meshes that are tried.
const MESHES: u64 = 300;

/// Returns the mesh of a client that subscribes to everything.
fn received(mesh: &Mesh, view: View<'_>) -> Mesh {
    let clusters = mesh.clusters().iter().map(|cluster| Arc::new(received_cluster(cluster, view))).collect();
    let addresses: Vec<_> = mesh.addresses().map(|(address, cluster)| received_address(address, cluster)).collect();
    Mesh::new("default", clusters, addresses, Vec::new(), Vec::new())
}

fn received_cluster(cluster: &Cluster, view: View<'_>) -> Cluster {
    let read = cluster::read(&cluster::write(cluster, view).encode_to_vec()).expect("ours");
    let endpoints = endpoints::read(&endpoints::write(cluster, view).encode_to_vec()).expect("ours");
    assert_eq!(endpoints.key, read.key);
    Cluster { endpoints: endpoints.ready, unready_endpoints: endpoints.unready, ..read }
}

fn received_address(address: SocketAddr, cluster: &Cluster) -> (SocketAddr, ClusterKey) {
    let written = listener::write(&address.to_string(), Some(address), cluster, None);
    let lead = listener::read(&written.encode_to_vec()).expect("ours");
    let Destination::Cluster(key) = lead.destination else { panic!("{lead:?} is no cluster") };
    (lead.name.parse().expect("an address"), key)
}

#[test]
fn a_mesh_is_the_same_after_its_way_over_the_wire() {
    let trust_domain: TrustDomain = "cluster.local".parse().expect("a trust domain");
    let secure = |dialect| View { dialect, mutual_tls: Some(&trust_domain) };
    for seed in leno_testing::seeds(0..MESHES) {
        let mesh = random_mesh(&mut Rng::with_seed(seed));
        for view in [ENVOY, GRPC, secure(Dialect::Envoy), secure(Dialect::Grpc)] {
            let received = received(&mesh, view);
            assert_eq!(received.clusters(), mesh.clusters(), "seed {seed}, {view:?}");
            assert!(received.addresses().eq(mesh.addresses()), "seed {seed}, {view:?}");
        }
    }
}

#[test]
fn equal_resources_are_equal_bytes() {
    for seed in leno_testing::seeds(0..MESHES) {
        let mesh = random_mesh(&mut Rng::with_seed(seed));
        for cluster in mesh.clusters() {
            let bytes = || {
                [
                    cluster::write(cluster, ENVOY).encode_to_vec(),
                    endpoints::write(cluster, ENVOY).encode_to_vec(),
                    listener::write("a", None, cluster, None).encode_to_vec(),
                ]
            };
            assert_eq!(bytes(), bytes(), "seed {seed}");
        }
    }
}

#[test]
fn bytes_that_were_changed_on_their_way_are_read_or_refused() {
    for seed in leno_testing::seeds(0..MESHES) {
        let mut random = Rng::with_seed(seed);
        let mesh = random_mesh(&mut random);
        for cluster in mesh.clusters() {
            let mut all = [
                cluster::write(cluster, ENVOY).encode_to_vec(),
                endpoints::write(cluster, ENVOY).encode_to_vec(),
                listener::write("a", None, cluster, None).encode_to_vec(),
            ];
            for bytes in &mut all {
                for _ in 0..8 {
                    let place = random.usize(..bytes.len());
                    bytes[place] = random.u8(..);
                }
                bytes.truncate(random.usize(..=bytes.len()));
            }
            // The damaged bytes may still be valid. Reading them may succeed or fail, but must not panic.
            let [a, b, c] = all;
            let errors = [cluster::read(&a).err(), endpoints::read(&b).err(), listener::read(&c).err()];
            for error in errors.into_iter().flatten() {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}

#[test]
fn a_pods_own_cluster_is_the_same_after_its_way_over_the_wire() {
    let pod = MeshedPod {
        namespace: "shop".into(),
        name: "cart-0".into(),
        controller: "statefulset/cart".parse().ok(),
        other_ip: None,
        proxy: EndpointProxy {
            identity: "ns/shop/sa/cart".parse().expect("a workload"),
            inbound_port: None,
            tunnel_port: proxy::TUNNEL_PORT,
        },
        skipped_ports: Default::default(),
        opaque_ports: "5000".parse().expect("a port"),
    };
    let pods = ["10.244.1.7", "fd00::7"].map(|ip| (ip.parse().expect("an address"), pod.clone()));
    let mesh = Mesh::empty().with_pods(Arc::new(pods.into()));
    for at in ["10.244.1.7:9102", "10.244.1.7:5000", "[fd00::7]:80"] {
        let at: SocketAddr = at.parse().expect("an address");
        let sent = mesh.pod_by_address(at).expect("a Pod");
        assert_eq!(received_cluster(&sent, ENVOY), sent);
        let written = listener::write_endpoint(&at.to_string(), &sent.key).encode_to_vec();
        assert_eq!(listener::read(&written).expect("ours").destination, Destination::Endpoint(sent.key.clone()));
        // After a client has received this cluster, it finds the endpoint by the Pod's address.
        let known = Mesh::new("default", vec![Arc::new(sent)], [], Vec::new(), Vec::new());
        let endpoint = known.endpoint_by_address(at).expect("the Pod").1;
        assert!(endpoint.proxy.is_some() && known.cluster_by_address(at).is_none());
    }
}
