//! gRPC programs without a proxy, and Envoy, obey a TrafficPolicy as far as they know its parts.

use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::wait_for;
use leno_tests::scripted::{Reply, Scripted};
use leno_tests::xds::{Control, Envoy, XdsClient};
use serde_json::{Value, json};

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

/// The parts of policies that a client ignores: one entry for each of its resources that has such parts.
fn ignored(page: &Value) -> Vec<Value> {
    let kinds = page["kinds"].as_array().into_iter().flatten();
    let resources = kinds.flat_map(|kind| kind["resources"].as_array().into_iter().flatten());
    resources.map(|resource| resource["ignored"].clone()).filter(|ignored| !ignored.is_null()).collect()
}

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
    assert_eq!(ignored(&page), [json!({ "TrafficPolicy default/echo": ["budget"] })], "{page}");

    control.directory().remove("policy.yaml");
    wait_for("grpc-go has no policy", SOON, || (attempts(1) == 1).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_accepts_every_part_of_a_policy_and_the_page_clients_says_what_it_ignores() {
    let backend = Backend::start().await;
    let control = Control::start(&[Service::echo(&[backend.address()])]);
    let policy = POLICY.to_owned()
        + "  timeouts: {request: 30s, backendRequest: 10s, streamIdle: 5m}\n  hedge: {delay: p95, methods: [leno.echo.v1.Echo/Unary]}\n";
    control.directory().write("policy.yaml", &policy);
    let envoy = tokio::task::block_in_place(|| Envoy::start(&control, "envoy"));
    let client = Client::connect(envoy.outbound(), ECHO).await;
    assert_eq!(client.call(&Call::new("Echo"), b"hello").await.grpc_status(), Some(0));
    let page = control.client("envoy").expect("it is connected");
    assert!(!page.to_string().contains("refused"), "{page}");
    wait_for("the page names the parts", SOON, || {
        let page = control.client("envoy")?;
        (ignored(&page)
            == [
                json!({ "TrafficPolicy default/echo": ["budget"] }),
                json!({ "TrafficPolicy default/echo": ["hedge"] }),
            ])
        .then_some(())
    });
}
