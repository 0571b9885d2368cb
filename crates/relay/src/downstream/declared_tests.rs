use leno_model::discovery::Subject;
use leno_model::mesh::{Draft, Mesh};
use leno_model::policy::Probe;

use super::*;
use crate::downstream::client::Speaks;
use crate::fixtures::{connect, inbound, mesh_of, outbound, relay, service};
use crate::link::opaque::Contents;

fn application() -> SocketAddr {
    "10.0.0.9:8080".parse().expect("an address")
}

/// Returns the mesh with a Service of another namespace that lists the application's address and declares `protocol`.
fn foreign_service(protocol: &str) -> Mesh {
    let manifests = service("other", &["10.0.0.9"]).replace("namespace: shop", "namespace: other");
    mesh_of(manifests.replace("port: 80}", &format!("port: 80, appProtocol: {protocol}}}")))
}

/// Returns the part of a mesh that a proxy knows after its application has called every Service. The application has
/// also called its own address, and the control plane's answer about this address names the last Service.
fn called(mesh: &Mesh) -> Mesh {
    let mut draft = Draft::new("default");
    for cluster in mesh.clusters() {
        draft.set_cluster(&cluster.key, Some(Arc::clone(cluster)));
        draft.set_address(application(), Some(&cluster.key), false);
        draft.set_answered(&Subject::Service(cluster.key.clone()), true);
    }
    draft.set_answered(&Subject::Address(application()), true);
    draft.mesh().clone()
}

#[test]
fn a_service_that_the_application_calls_declares_nothing_about_the_application() {
    for protocol in ["tcp", "http"] {
        let relay = relay(1, called(&foreign_service(protocol)), true);
        let declared = (relay.inspection(&inbound()), relay.declared_http(&inbound()));
        assert_eq!(declared, (Inspection::Protocol, None), "{protocol}");
    }
}

#[test]
fn a_service_declares_the_protocol_of_calls_to_its_endpoint() {
    let to_endpoint = Origin { original_destination: Some(application()), ..outbound() };
    for (protocol, expected) in
        [("tcp", (Inspection::Nothing, None)), ("http", (Inspection::Protocol, Some(Protocol::Http1)))]
    {
        let relay = relay(1, called(&foreign_service(protocol)), true);
        assert_eq!((relay.inspection(&to_endpoint), relay.declared_http(&to_endpoint)), expected, "{protocol}");
    }
}

/// The author of a directory's files may declare the protocol of every address in them.
#[test]
fn every_service_of_a_directory_declares_the_protocol_of_its_endpoints() {
    for (protocol, expected) in
        [("tcp", (Inspection::Nothing, None)), ("http", (Inspection::Protocol, Some(Protocol::Http1)))]
    {
        let relay = relay(1, foreign_service(protocol), false);
        assert_eq!((relay.inspection(&inbound()), relay.declared_http(&inbound())), expected, "{protocol}");
    }
}

/// Otherwise a client could hide an HTTP request with a forged `leno-client-id` in opaque bytes.
#[test]
fn a_port_with_a_probe_takes_only_http_whatever_a_service_of_another_namespace_declares() {
    let mut relay = relay(1, called(&foreign_service("tcp")), true);
    let probe: Probe = "8080/healthz".parse().expect("a probe");
    relay.settings.probes = [probe].into_iter().collect();
    let declared = (relay.inspection(&inbound()), relay.declared_http(&inbound()));
    assert_eq!(declared, (Inspection::Protocol, Some(Protocol::Http1)));
    let request = b"\r\nGET / HTTP/1.0\r\nleno-client-id: spiffe://example.org/ns/shop/sa/web\r\n\r\n".to_vec();
    let client = connect(&mut relay, 0, inbound(), None, (Speaks::Opaque(Contents::Unknown), request));
    assert!(relay.breaks_declaration(relay.downstreams.get(client).expect("it is open")));
}
