use super::{
    AuthorizationLabels, ConnectionLabels, DecidedBy, Direction, Labels, NoTlsReason, PeerLabel, TargetLabel, TlsLabel,
    TrafficLabels,
};
use crate::metrics::fixtures::{inbound, mutual, outbound};

fn text(labels: &Labels) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn calls_from_a_workload_name_it_and_the_port() {
    assert_eq!(
        text(&inbound(8080, "web").labels()),
        "direction=inbound target_port=8080 srv_port=8080 tls=true client_id=spiffe://example.org/ns/shop/sa/web"
    );
}

#[test]
fn calls_to_a_cluster_name_it_and_the_workload_that_serves_it() {
    assert_eq!(
        text(&outbound(50051).labels()),
        "direction=outbound authority=echo.default.svc.cluster.local:50051 dst_namespace=default dst_service=echo \
         dst_port=50051 tls=true server_id=spiffe://example.org/ns/shop/sa/echo"
    );
}

#[test]
fn calls_to_a_pod_name_its_controller_as_linkerd_does() {
    let label = |server: &str| {
        let labels = TrafficLabels { server: Some(server.parse().expect("a controller")), ..outbound(50051) }.labels();
        labels.into_iter().find(|(_, value)| value == "cart").expect("its name").0
    };
    assert_eq!(label("deployment/cart"), "dst_deployment");
    assert_eq!(label("job/cart"), "dst_k8s_job");
    assert_eq!(label("cronjob/cart"), "dst_cronjob");
}

#[test]
fn every_state_of_tls_is_told_apart_as_linkerd_does() {
    let tls_labels = |tls| {
        text(&TrafficLabels { direction: Direction::Inbound, target: TargetLabel::Unknown, server: None, tls }.labels())
    };
    let none = |reason| tls_labels(TlsLabel::None(reason));
    assert_eq!(tls_labels(TlsLabel::NoCertificate), "direction=inbound tls=true client_id=");
    assert_eq!(tls_labels(TlsLabel::Opaque), "direction=inbound tls=opaque");
    assert_eq!(tls_labels(TlsLabel::Disabled), "direction=inbound tls=disabled");
    assert_eq!(tls_labels(TlsLabel::Unknown), "direction=inbound tls=unknown");
    assert_eq!(none(NoTlsReason::Loopback), "direction=inbound tls=no_identity no_tls_reason=loopback");
    assert_eq!(
        none(NoTlsReason::NoTlsFromRemote),
        "direction=inbound tls=no_identity no_tls_reason=no_tls_from_remote"
    );
    assert_eq!(
        none(NoTlsReason::NotInMesh),
        "direction=inbound tls=no_identity no_tls_reason=not_provided_by_service_discovery"
    );
    assert_eq!(none(NoTlsReason::Probe), "direction=inbound tls=no_identity no_tls_reason=probe");
}

#[test]
fn beyond_a_limit_no_name_is_left_but_whether_it_was_secure_is() {
    let connection = ConnectionLabels { peer: PeerLabel::Source, traffic: inbound(8080, "web") };
    assert_eq!(
        text(&connection.beyond_limit().labels()),
        "direction=inbound peer=src target_port=other tls=true client_id=other"
    );
    let named = TrafficLabels { server: "deployment/echo".parse().ok(), ..outbound(80) };
    assert_eq!(text(&named.beyond_limit().labels()), "direction=outbound dst_service=other tls=true server_id=other");
}

#[test]
fn decisions_name_the_policy_if_it_is_told_and_have_no_direction() {
    let traffic = TrafficLabels {
        direction: Direction::Inbound,
        target: TargetLabel::Port(80),
        server: None,
        tls: mutual("web"),
    };
    let decided_by = |policy| AuthorizationLabels { traffic: traffic.clone(), policy };
    let who = "target_port=80 srv_port=80 tls=true client_id=spiffe://example.org/ns/shop/sa/web";
    assert_eq!(text(&decided_by(None).labels()), who);
    assert_eq!(
        text(&decided_by(Some(DecidedBy::Default("deny"))).labels()),
        format!("{who} authz_kind=default authz_name=deny")
    );
    assert_eq!(
        text(&decided_by(Some(DecidedBy::AuthorizationPolicy("shop/carts".into()))).labels()),
        format!("{who} authz_kind=authorizationpolicy authz_name=shop/carts")
    );
}
