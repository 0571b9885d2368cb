use tonic::Code;

use super::super::fixtures::{first, plan};
use super::*;

async fn policy_of(target: Target, is_opaque: bool) -> Result<OutboundPolicy, Status> {
    let traffic = TrafficSpec { source_workload: "lab".to_owned(), target: Some(target) };
    let answer = Service(Arc::new(plan(is_opaque))).watch(Request::new(traffic)).await?;
    Ok(first(answer).await)
}

fn address(text: &str) -> Target {
    Target::Addr(text.parse::<SocketAddr>().expect("an address").into())
}

/// Returns the balancer of the policy's first HTTP/2 route.
fn balancer(policy: OutboundPolicy) -> BalanceP2c {
    let Some(Kind::Detect(Detect { http2: Some(http2), .. })) = policy.protocol.and_then(|it| it.kind) else {
        panic!("it detects no protocol");
    };
    let backends = http2.routes[0].rules[0].backends.as_ref().and_then(|it| it.kind.as_ref());
    let Some(http_route::distribution::Kind::FirstAvailable(first)) = backends else {
        panic!("it has no first backend");
    };
    match first.backends[0].backend.as_ref().and_then(|it| it.kind.clone()) {
        Some(BackendKind::Balancer(balancer)) => balancer,
        kind => panic!("it has no balancer: {kind:?}"),
    }
}

#[tokio::test]
async fn the_service_is_balanced_by_peak_ewma_over_its_endpoints() {
    let named = Target::Authority("backends.lab.svc.cluster.local:16000".to_owned());
    for target in [address("10.96.0.50:16000"), named] {
        let BalanceP2c { discovery, load } = balancer(policy_of(target, false).await.expect("a policy"));
        let Some(Load::PeakEwma(PeakEwma { default_rtt, decay })) = load else { panic!("another balancer") };
        let [default_rtt, decay] = [default_rtt, decay].map(|it| it.and_then(|it| Duration::try_from(it).ok()));
        assert_eq!((default_rtt, decay), (Some(DEFAULT_RTT), Some(DECAY)));
        let path = "backends.lab.svc.cluster.local:16000".to_owned();
        assert_eq!(discovery.and_then(|it| it.kind), Some(Discovery::Dst(DestinationGet { path })));
    }
}

#[tokio::test]
async fn a_service_of_opaque_bytes_has_no_detection() {
    let policy = policy_of(address("10.96.0.50:16000"), true).await.expect("a policy");
    assert!(matches!(policy.protocol.and_then(|it| it.kind), Some(Kind::Opaque(_))));
}

#[tokio::test]
async fn another_destination_has_no_policy() {
    let status = policy_of(address("10.96.0.50:80"), false).await.expect_err("no policy");
    assert_eq!(status.code(), Code::NotFound);
}
