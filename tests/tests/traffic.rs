//! gRPC programs without a proxy obey a TrafficPolicy as far as gRPC knows its parts.

use std::time::Duration;

use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::wait_for;
use leno_tests::scripted::{Reply, Scripted};
use leno_tests::xds::{Control, XdsClient};
use serde_json::json;

/// The method that every backend answers.
const UNARY: &str = "/leno.echo.v1.Echo/Unary";
const SOON: Duration = Duration::from_secs(20);

/// Sends a call again twice after UNAVAILABLE. gRPC knows no budget.
const POLICY: &str = "\
apiVersion: leno.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: echo, namespace: default}
spec:
  targetRefs: [{group: '', kind: Service, name: echo}]
  retry: {grpcCodes: [UNAVAILABLE], attempts: 2, backoff: 1ms}
  budget: {percent: 100}
";

#[test]
fn grpc_go_retries_as_a_policy_says_and_the_page_clients_says_what_it_ignores() {
    let server = Scripted::start(|begun| Reply::Send(Reply::unavailable(begun.stream)));
    let control = Control::start(&[Service::echo(&[server.address()])]);
    let mut client = XdsClient::start(&control, "go", ECHO);
    let mut attempts = |calls: u32| {
        let before = server.requests();
        assert_eq!(client.call(UNARY, calls), format!("Unavailable={calls}"));
        server.requests() - before
    };
    assert_eq!(attempts(5), 5);
    let page = control.client("go").expect("it is connected");
    assert!(!page.to_string().contains("ignored"), "{page}");

    control.directory().write("policy.yaml", POLICY);
    wait_for("grpc-go has the policy", SOON, || (attempts(1) == 3).then_some(()));
    assert_eq!(attempts(5), 15);
    let page = control.client("go").expect("it is connected");
    let resources = page["kinds"].as_array().into_iter().flatten().flat_map(|kind| {
        let resources = kind["resources"].as_array().into_iter().flatten();
        resources.filter(|resource| !resource["ignored"].is_null()).map(move |it| (kind["kind"].clone(), it.clone()))
    });
    let ignored: Vec<_> = resources.map(|(kind, resource)| (kind, resource["ignored"].clone())).collect();
    assert_eq!(ignored.len(), 1, "{page}");
    assert_eq!(ignored[0].1, json!({ "TrafficPolicy default/echo": ["budget"] }), "{page}");

    control.directory().remove("policy.yaml");
    wait_for("grpc-go has no policy", SOON, || (attempts(1) == 1).then_some(()));
}
