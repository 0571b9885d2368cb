//! gRPC programs without a proxy, and Envoy, apply the parts of a TrafficPolicy that they support.

use std::time::{Duration, Instant};

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::wait_for;
use leno_tests::scripted::{Begun, Reply, Scripted};
use leno_tests::xds::{Control, Envoy, Library, XdsClient};
use serde_json::{Value, json};

use crate::crowds::is_grpc_java_there;

/// The method that every backend answers.
const UNARY: &str = "/leno.echo.v1.Echo/Unary";
const SOON: Duration = Duration::from_secs(20);
/// The name of the client on the page /clients.
const NODE: &str = "client";
/// The policy of the Service, as the page /clients names it.
const SETTER: &str = "TrafficPolicy default/echo";

/// Returns the parts of policies that a client ignores: one entry for each of the client's resources that has ignored
/// parts.
fn ignored(page: &Value) -> Vec<Value> {
    let kinds = page["kinds"].as_array().into_iter().flatten();
    let resources = kinds.flat_map(|kind| kind["resources"].as_array().into_iter().flatten());
    resources.map(|resource| resource["ignored"].clone()).filter(|ignored| !ignored.is_null()).collect()
}

/// A client on a gRPC library without a proxy, the server that it calls, and the control plane.
struct Policed {
    service: Service,
    server: Scripted,
    control: Control,
    client: XdsClient,
}

impl Policed {
    /// Starts the control plane, the server and the client. `parts` are the lines of the Service's policy.
    fn start(library: Library, script: impl Fn(Begun) -> Reply + Send + Sync + 'static, parts: &str) -> Self {
        let server = Scripted::start(script);
        let service = Service::echo(&[server.address()]);
        let control = Control::start(&[service.clone().policed(parts)]);
        let client = XdsClient::start_on(library, &control, NODE, ECHO, &[]);
        Self { service, server, control, client }
    }

    /// Makes calls that must end with this status. Returns the number of requests that the server got.
    fn requests(&mut self, status: &str, calls: u32) -> u64 {
        let before = self.server.requests();
        assert_eq!(self.client.call(UNARY, calls), format!("{status}={calls}"));
        self.server.requests() - before
    }

    /// Replaces the policy, and waits until each of the client's calls has this number of attempts. All calls fail.
    fn wait_for_attempts(&mut self, parts: &str, attempts: u64) {
        self.control.directory().put(&self.service.clone().policed(parts));
        wait_for(parts, SOON, || (self.requests("Unavailable", 1) == attempts).then_some(()));
        assert_eq!(self.requests("Unavailable", 5), 5 * attempts, "{parts}");
    }

    /// Waits until the page /clients shows exactly these ignored parts. The page shows a part only after the client has
    /// received the part's resource, which may be its last one.
    fn assert_ignored(&self, parts: &[&str]) {
        let expected = if parts.is_empty() { Vec::new() } else { vec![json!({ SETTER: parts })] };
        wait_for(&format!("the page names {parts:?}"), SOON, || {
            let page = self.control.client(NODE).expect("it is connected");
            (ignored(&page) == expected).then_some(())
        });
    }
}

/// Checks the retries of a client under several policies. One of the policies allows ten retries. `attempts_max` is the
/// number of attempts that the client makes under this policy. `beyond` lists the parts of this policy that the client
/// ignores, as the page names them.
fn retries_as_a_policy_says(library: Library, attempts_max: u64, beyond: &[&str]) {
    let script = |begun: Begun| Reply::Send(Reply::unavailable(begun.stream));
    let mut policed = Policed::start(library, script, "retry: {grpcCodes: [UNAVAILABLE], attempts: 2, backoff: 1ms}");
    assert_eq!(policed.requests("Unavailable", 5), 15);
    policed.assert_ignored(&[]);
    policed.wait_for_attempts("retry: {grpcCodes: [UNAVAILABLE], attempts: 10, backoff: 1ms}", attempts_max);
    policed.assert_ignored(beyond);
    policed.wait_for_attempts("retry: {grpcCodes: [ABORTED], httpCodes: [503], backoff: 1ms}", 1);
    policed.assert_ignored(&["retry.httpCodes", "some of retry.grpcCodes"]);
    policed.wait_for_attempts("retry: {grpcCodes: [UNAVAILABLE], backoff: 1ms}\nbudget: {percent: 0}", 2);
    policed.assert_ignored(&["budget"]);
    policed.wait_for_attempts("retry: {grpcCodes: [UNAVAILABLE], attempts: 1, mode: Audit}", 1);
    policed.assert_ignored(&["retry in mode Audit"]);
}

/// Makes a call that the server never answers. The call must end with DEADLINE_EXCEEDED, after one attempt. Returns the
/// duration of the call.
fn unanswered(library: Library, parts: &str, ignored: &[&str]) -> Duration {
    // Answer the first call, so that the client's start is not part of the measured time.
    let script = |begun: Begun| {
        let is_first = begun.earlier == 0;
        Reply::Send(if is_first { Reply::success(begun.stream) } else { Vec::new() })
    };
    let mut policed = Policed::start(library, script, parts);
    assert_eq!(policed.requests("OK", 1), 1);
    let began = Instant::now();
    assert_eq!(policed.requests("DeadlineExceeded", 1), 1, "{parts}");
    policed.assert_ignored(ignored);
    began.elapsed()
}

fn has_the_time_that_a_policy_allows(library: Library) {
    // Without a limit, the client's own deadline of 10 s ends the call.
    let is_limited = |parts: &str, ignored: &[&str]| unanswered(library, parts, ignored) < Duration::from_secs(6);
    assert!(is_limited("timeouts: {request: 500ms}", &[]));
    assert!(is_limited("timeouts: {backendRequest: 500ms}", &[]), "without retries, it limits the whole call");
    let retry = "retry: {grpcCodes: [DEADLINE_EXCEEDED, CANCELLED], backoff: 1ms}";
    let attempt_and_idle = format!("timeouts: {{backendRequest: 500ms, streamIdle: 500ms}}\n{retry}");
    assert!(!is_limited(&attempt_and_idle, &["timeouts.backendRequest", "timeouts.streamIdle"]));
}

#[test]
fn grpc_go_retries_as_a_policy_says_and_the_page_clients_says_what_it_ignores() {
    retries_as_a_policy_says(Library::Go, 11, &[]);
}

#[test]
fn grpc_java_retries_as_a_policy_says_and_the_page_clients_says_what_it_ignores() {
    if is_grpc_java_there() {
        retries_as_a_policy_says(Library::Java, 5, &["retry.attempts above 4"]);
    }
}

#[test]
fn a_call_of_grpc_go_has_the_time_that_a_policy_allows_as_far_as_it_knows_the_limits() {
    has_the_time_that_a_policy_allows(Library::Go);
}

#[test]
fn a_call_of_grpc_java_has_the_time_that_a_policy_allows_as_far_as_it_knows_the_limits() {
    if is_grpc_java_there() {
        has_the_time_that_a_policy_allows(Library::Java);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_accepts_every_part_of_a_policy_and_the_page_clients_says_what_it_ignores() {
    let backend = Backend::start().await;
    let parts = "retry: {grpcCodes: [UNAVAILABLE], attempts: 2, backoff: 1ms}\nbudget: {percent: 100}\n\
                 timeouts: {request: 30s, backendRequest: 10s, streamIdle: 5m}\n\
                 hedge: {delay: p95, methods: [leno.echo.v1.Echo/Unary]}";
    let control = Control::start(&[Service::echo(&[backend.address()]).policed(parts)]);
    let envoy = tokio::task::block_in_place(|| Envoy::start(&control, "envoy"));
    let client = Client::connect(envoy.outbound(), ECHO).await;
    assert_eq!(client.call(&Call::new("Echo"), b"hello").await.grpc_status(), Some(0));
    let page = control.client("envoy").expect("it is connected");
    assert!(!page.to_string().contains("refused"), "{page}");
    wait_for("the page names the parts", SOON, || {
        let page = control.client("envoy")?;
        let of_budget = json!({ SETTER: ["budget.interval", "budget.minPerSecond"] });
        (ignored(&page) == [of_budget, json!({ SETTER: ["hedge"] })]).then_some(())
    });
}

/// Makes calls through Envoy, one after another. Each must end with one of the statuses.
async fn call_through(envoy: &Envoy, calls: u32, statuses: &[u8]) {
    let client = Client::connect(envoy.outbound(), ECHO).await;
    for number in 0..calls {
        let answer = client.call(&Call::new("Echo"), b"hello").await;
        assert!(answer.grpc_status().is_some_and(|status| statuses.contains(&status)), "call {number}: {answer:?}");
    }
}

/// Starts an Envoy that calls these servers under a policy. Envoy chooses the servers at random.
fn envoy_between(servers: &[&Scripted], parts: &str) -> (Control, Envoy) {
    let addresses: Vec<_> = servers.iter().map(|server| server.address()).collect();
    let service = Service::echo(&addresses).annotated("leno.dev/balancer", "random").policed(parts);
    let control = Control::start(&[service]);
    let envoy = tokio::task::block_in_place(|| Envoy::start(&control, "envoy"));
    (control, envoy)
}

fn answering() -> Scripted {
    Scripted::start(|begun| Reply::Send(Reply::success(begun.stream)))
}

/// Tests that Envoy retries at the other server. If it chose the server of the only retry at random, a quarter of the
/// calls would fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_retries_at_another_endpoint() {
    const CALLS: u32 = 40;
    let failing = Scripted::start(|begun| Reply::Send(Reply::unavailable(begun.stream)));
    let hanging = Scripted::start(|_| Reply::Send(Vec::new()));
    let retry = "retry: {grpcCodes: [UNAVAILABLE], attempts: 1, backoff: 1ms}\nbudget: {percent: 100}";
    let with_limit = format!("{retry}\ntimeouts: {{backendRequest: 300ms}}");
    for (bad, parts) in [(failing, retry), (hanging, with_limit.as_str())] {
        let good = answering();
        let (_control, envoy) = envoy_between(&[&bad, &good], parts);
        call_through(&envoy, CALLS, &[0]).await;
        assert_eq!(good.requests(), u64::from(CALLS), "{parts}");
        assert!((1..u64::from(CALLS)).contains(&bad.requests()), "{} attempts: {parts}", bad.requests());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_makes_as_many_attempts_as_a_policy_and_its_budget_allow() {
    const CALLS: u32 = 5;
    for (budget, attempts) in [("budget: {percent: 100}", 3), ("budget: {percent: 0, minPerSecond: 0}", 1)] {
        let failing = Scripted::start(|begun| Reply::Send(Reply::unavailable(begun.stream)));
        let parts = format!("retry: {{grpcCodes: [UNAVAILABLE], attempts: 2, backoff: 1ms}}\n{budget}");
        let (_control, envoy) = envoy_between(&[&failing], &parts);
        call_through(&envoy, CALLS, &[14]).await;
        assert_eq!(failing.requests(), u64::from(attempts * CALLS), "{budget}");
    }
}

/// Without a policy, the call would last until the client's own deadline, which is at least 10 s. Envoy may end a call
/// slightly early: its timeouts count from the start of an iteration of its event loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_ends_a_call_after_the_time_that_a_policy_allows() {
    for parts in ["timeouts: {request: 500ms}", "timeouts: {backendRequest: 500ms}", "timeouts: {streamIdle: 500ms}"] {
        let hanging = Scripted::start(|_| Reply::Send(Vec::new()));
        let (_control, envoy) = envoy_between(&[&hanging], parts);
        let began = Instant::now();
        call_through(&envoy, 1, &[4, 14]).await;
        let elapsed = began.elapsed();
        assert!((Duration::from_millis(450)..Duration::from_secs(6)).contains(&elapsed), "{parts}: {elapsed:?}");
        assert_eq!(hanging.requests(), 1, "{parts}");
    }
}
