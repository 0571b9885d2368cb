use std::net::SocketAddr;
use std::sync::Arc;

use super::{MeshedPod, MeshedPods};
use crate::mesh::{EndpointProxy, Mesh};
use crate::protocol::Protocol;
use crate::proxy;

fn mesh() -> Mesh {
    let pod = MeshedPod {
        namespace: "shop".into(),
        name: "cart-0".into(),
        controller: None,
        other_ip: None,
        proxy: EndpointProxy {
            identity: "ns/shop/sa/cart".parse().expect("a workload"),
            inbound_port: None,
            tunnel_port: proxy::TUNNEL_PORT,
        },
        skipped_ports: "22,4191".parse().expect("ports"),
        opaque_ports: "5000".parse().expect("ports"),
    };
    let at = |ip: &str| (ip.parse().expect("an address"), pod.clone());
    let pods: MeshedPods = [at("10.244.1.7"), at("fd00::7")].into();
    Mesh::empty().with_pods(Arc::new(pods))
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn a_pods_address_leads_to_it_at_any_port_through_its_proxy() {
    let mesh = mesh();
    for (at, key) in [
        ("10.244.1.7:9102", "-10-244-1-7.shop:9102"),
        ("10.244.1.7:1", "-10-244-1-7.shop:1"),
        ("[::ffff:10.244.1.7]:80", "-10-244-1-7.shop:80"),
        ("[fd00::7]:80", "-fd00-0-0-0-0-0-0-7.shop:80"),
    ] {
        let cluster = mesh.pod_by_address(address(at)).expect("a Pod");
        assert_eq!(cluster.key.to_string(), key);
        let [endpoint] = &cluster.endpoints[..] else { panic!("one endpoint: {cluster:?}") };
        let proxy = endpoint.proxy.as_ref().expect("a proxy");
        assert_eq!((proxy.identity.to_string().as_str(), endpoint.pod.as_deref()), ("ns/shop/sa/cart", Some("cart-0")));
        assert_eq!(mesh.pod_cluster(&cluster.key), Some(cluster.clone()));
        let other = crate::mesh::ClusterKey { namespace: "bank".into(), ..cluster.key };
        assert_eq!(mesh.pod_cluster(&other), None);
    }
    assert!(mesh.pod_by_address(address("10.244.1.8:9102")).is_none());
}

#[test]
fn ports_that_pass_the_proxy_by_are_no_ports_of_its_cluster() {
    assert!(mesh().pod_by_address(address("10.244.1.7:4191")).is_none());
}

#[test]
fn what_is_spoken_is_what_the_pod_says_of_the_port() {
    let protocol =
        |port: u16| mesh().pod_by_address(SocketAddr::new([10, 244, 1, 7].into(), port)).map(|it| it.protocol);
    assert_eq!(protocol(5000), Some(Protocol::Opaque));
    assert_eq!(protocol(3306), Some(Protocol::Opaque));
    assert_eq!(protocol(8080), Some(Protocol::Detect));
}

#[test]
fn a_services_key_is_no_pods() {
    for service in ["web", "10-244-1-7", "-", "-1-2-3", "-1-2-3-4-5", "-300-1-1-1"] {
        let key = crate::mesh::ClusterKey { namespace: "shop".into(), service: service.into(), port: 80 };
        assert_eq!(key.pod_address(), None, "{service}");
    }
}
