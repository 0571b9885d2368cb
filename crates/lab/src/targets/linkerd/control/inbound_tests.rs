use super::super::fixtures::{first, plan};
use super::*;

async fn server(port: u32, is_opaque: bool) -> Server {
    let spec = PortSpec { workload: "lab".to_owned(), port };
    let answer = Service(Arc::new(plan(is_opaque))).watch_port(Request::new(spec)).await;
    first(answer.expect("a stream")).await
}

#[tokio::test]
async fn every_port_requires_a_client_with_an_identity() {
    let server = server(16_001, false).await;
    let [authorization] = &server.authorizations[..] else { panic!("one authorization: {server:?}") };
    let permit = authorization.authentication.as_ref().and_then(|it| it.permit.as_ref());
    let Some(Permit::MeshTls(PermitMeshTls { clients: Some(Clients::Identities(clients)) })) = permit else {
        panic!("it accepts other clients: {permit:?}");
    };
    assert!(clients.identities.is_empty() && clients.suffixes == [IdentitySuffix::default()]);
    assert_eq!(authorization.networks.len(), 2);
}

#[tokio::test]
async fn only_the_applications_port_is_opaque() {
    for (port, is_opaque, is_detected) in [(16_001, false, true), (16_001, true, false), (4191, true, true)] {
        let kind = server(port, is_opaque).await.protocol.and_then(|it| it.kind);
        assert_eq!(matches!(kind, Some(Kind::Detect(_))), is_detected, "{port} {is_opaque}: {kind:?}");
    }
}
