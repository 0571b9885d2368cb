use super::super::fixtures::{first, plan};
use super::*;

async fn update(path: &str, is_opaque: bool) -> Kind {
    let request = GetDestination { path: path.to_owned(), ..GetDestination::default() };
    let answer = Service(Arc::new(plan(is_opaque))).get(Request::new(request)).await.expect("a stream");
    first(answer).await.update.expect("a kind of update")
}

#[tokio::test]
async fn every_pod_is_an_endpoint_with_an_identity_behind_the_port_of_its_proxy() {
    for (is_opaque, protocol) in [(false, Protocol::H2(H2 {})), (true, Protocol::Opaque(Opaque {}))] {
        let Kind::Add(set) = update("backends.lab.svc.cluster.local:16000", is_opaque).await else {
            panic!("no endpoints");
        };
        let ports: Vec<u32> = set.addrs.iter().filter_map(|it| it.addr.as_ref()).map(|it| it.port).collect();
        assert_eq!(ports, [16_001, 16_002]);
        let endpoint = &set.addrs[1];
        let hint = endpoint.protocol_hint.as_ref().expect("a hint");
        assert_eq!(hint.protocol, Some(protocol));
        assert_eq!(hint.opaque_transport.as_ref().map(|it| it.inbound_port), Some(16_004));
        let name = endpoint.tls_identity.as_ref().and_then(|it| it.server_name.as_ref()).expect("an identity");
        assert_eq!(name.name, "server.lab.serviceaccount.identity.linkerd.lab.local");
        assert_eq!(endpoint.weight, WEIGHT);
    }
}

#[tokio::test]
async fn another_path_has_no_service() {
    let update = update("backends.lab.svc.cluster.local:80", false).await;
    assert!(matches!(update, Kind::NoEndpoints(NoEndpoints { exists: false })), "{update:?}");
}

#[tokio::test]
async fn only_the_service_has_a_profile_with_a_name() {
    for (path, name) in [("10.96.0.50:16000", "backends.lab.svc.cluster.local"), ("10.96.0.51:16000", "")] {
        let request = GetDestination { path: path.to_owned(), ..GetDestination::default() };
        let answer = Service(Arc::new(plan(true))).get_profile(Request::new(request)).await.expect("a stream");
        let profile = first(answer).await;
        assert_eq!((profile.fully_qualified_name.as_str(), profile.opaque_protocol), (name, !name.is_empty()));
    }
}
