use linkerd2_proxy_api::outbound::TrafficSpec;
use linkerd2_proxy_api::outbound::outbound_policies_client::OutboundPoliciesClient;
use linkerd2_proxy_api::outbound::traffic_spec::Target;
use tonic::transport::Endpoint;

use super::fixtures::plan;
use super::*;

#[test]
fn the_services_answer_until_the_control_plane_is_dropped() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::create(dir.path()).expect("a writable directory");
    let (plan, token) = (plan(false), "token".to_owned());
    let target = Some(Target::Addr(plan.service.into()));
    let control = ControlPlane::start(plan, authority, token).expect("a free port");
    let address = control.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let spec = || TrafficSpec { target: target.clone(), ..TrafficSpec::default() };
    let mut client = runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let mut client = OutboundPoliciesClient::new(endpoint.connect().await.expect("it listens"));
        let policy = client.get(spec()).await.expect("a policy");
        assert!(policy.into_inner().protocol.is_some());
        client
    });
    drop(control);
    // The request must fail, because the control plane has ended. It fails even if another program now uses the
    // address, because no other program serves policies.
    runtime.block_on(client.get(spec())).expect_err("the control plane has ended");
}
