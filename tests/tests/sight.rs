//! The commands that show the calls of a running proxy: `leno stat`, `leno tap` and `leno explain`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client, read_at_least};
use leno_tests::manifests::{ECHO, Service};
use leno_tests::messages;
use leno_tests::programs::{program, run, run_well, text};
use leno_tests::proxy::{Proxy, free_address, wait_for};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(20);

/// A proxy in front of one backend, and a client.
struct Stage {
    backend: Backend,
    proxy: Proxy,
    client: Client,
}

impl Stage {
    async fn start(arguments: &[&str]) -> Self {
        let backend = Backend::start().await;
        let proxy = Proxy::start_with(free_address(), &[Service::echo(&[backend.address()])], arguments);
        let client = Client::connect(proxy.outbound(), ECHO).await;
        Self { backend, proxy, client }
    }

    async fn call(&self, call: &Call) {
        let answer = self.client.call(call, b"hello").await;
        assert!(answer.grpc_status().is_some(), "{answer:?}");
    }
}

/// Runs `leno` with the proxy's admin address, and returns its output.
fn leno(proxy: &Proxy, words: &[&str]) -> String {
    let admin = proxy.admin().to_string();
    run_well("leno", &[words, &["--admin", &admin]].concat(), SOON)
}

fn json(printed: &str) -> Value {
    // Read only the first value: the output ends with standard error, which may have a line about the progress.
    let mut values = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
    values.next().expect("output").unwrap_or_else(|error| panic!("{error} in {printed}"))
}

/// A running `leno tap`, whose lines are JSON.
struct Tap {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Tap {
    /// Starts the program, and waits until the proxy has begun the tap.
    fn start(proxy: &Proxy, words: &[&str]) -> Self {
        let before = proxy.log().matches("a tap begins").count();
        let admin = proxy.admin().to_string();
        let mut command = Command::new(program("leno"));
        command.args(["tap", "--admin", &admin, "--output", "json"]).args(words);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("leno is built");
        wait_for("the tap begins", SOON, || (proxy.log().matches("a tap begins").count() > before).then_some(()));
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a pipe");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // The program may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leno_stat_methods_counts_what_clients_called() {
    let stage = Stage::start(&[]).await;
    // Make a call before the window begins, because the proxy creates the method's own metrics series only at the first
    // answer.
    stage.call(&Call::new("Fast")).await;
    let window = Duration::from_secs(2);
    let printed = std::thread::scope(|scope| {
        let counting = scope.spawn(|| leno(&stage.proxy, &["stat", "methods", "-o", "json", "--window", "2s"]));
        let began = Instant::now();
        let runtime = tokio::runtime::Handle::current();
        // Make calls until the program ends, so that there are calls during the whole window.
        tokio::task::block_in_place(|| {
            while !counting.is_finished() && began.elapsed() < SOON {
                runtime.block_on(stage.call(&Call::new("Fast").with("grpc-timeout", "10S")));
                runtime.block_on(stage.call(&Call::new("Failing").with("reply-status", "14")));
            }
        });
        counting.join().expect("it counts")
    });
    let rows = json(&printed);
    let row = |method: &str| {
        let rows = rows.as_array().expect("rows");
        let found = rows.iter().find(|row| row["method"] == format!("test.Test/{method}"));
        found.unwrap_or_else(|| panic!("no {method} in {printed}")).clone()
    };
    let (fast, failing) = (row("Fast"), row("Failing"));
    assert_eq!((&fast["direction"], &fast["success_rate"]), (&Value::from("outbound"), &Value::from(1.0)));
    assert_eq!((&failing["success_rate"], &fast["expired_rate"]), (&Value::from(0.0), &Value::from(0.0)));
    assert_eq!(failing["expired_rate"], Value::Null, "its calls have no deadline");
    let rate = |row: &Value, field: &str| row[field].as_f64().expect("a rate");
    let calls = rate(&fast, "calls_per_second") * window.as_secs_f64();
    assert!((1.0..=stage.backend.calls() as f64).contains(&calls), "{calls} of {} calls", stage.backend.calls());
    // Each call has one message in each direction. A call may begin before the window, or end after it.
    let messages = rate(&fast, "request_messages_per_second");
    assert!((messages - rate(&fast, "calls_per_second")).abs() * window.as_secs_f64() <= 2.0, "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leno_stat_streams_shows_an_open_stream_with_its_messages() {
    let stage = Stage::start(&[]).await;
    let (response, mut request) = stage.client.open(&Call::new("Bidi")).await.expect("a stream");
    for text in [b"one", b"two"] {
        messages::send(&mut request, messages::message(text), false).await.expect("the stream is open");
    }
    let mut body = response.await.expect("an answer").into_body();
    read_at_least(&mut body, 2 * messages::message(b"one").len()).await.expect("both messages");

    let shown = json(&leno(&stage.proxy, &["stat", "streams", "-o", "json", "--longer-than", "500ms"]));
    let [stream] = &shown["calls"].as_array().expect("calls")[..] else { panic!("{shown}") };
    assert_eq!((&stream["method"], &stream["progress"]), (&Value::from("test.Test/Bidi"), &Value::from("answering")));
    assert_eq!((&stream["request_messages"], &stream["response_messages"]), (&Value::from(2), &Value::from(2)));
    assert_eq!(stream["endpoint"], stage.backend.address().to_string());
    assert_eq!((&stream["stalled_by"], &stream["messages_per_second"]), (&Value::Null, &Value::from(0.0)));
    let text = leno(&stage.proxy, &["stat", "streams", "--longer-than", "1h"]);
    assert!(text.starts_with("no call has been open for longer than 3600000 ms"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leno_tap_shows_the_calls_that_it_selects() {
    let stage = Stage::start(&[]).await;
    let mut all = Tap::start(&stage.proxy, &[]);
    let mut failed = Tap::start(&stage.proxy, &["--failed", "--calls", "1"]);
    let mut slow = Tap::start(&stage.proxy, &["--slower-than", "300ms", "--method", "test.Test/Slow"]);
    stage.call(&Call::new("Fast")).await;
    stage.call(&Call::new("Failing").with("reply-status", "14")).await;
    stage.call(&Call::new("Slow")).await;
    stage.call(&Call::new("Slow").with("delay-ms", "400")).await;

    let shown: Vec<Value> = (0..4).map(|_| all.next()).collect();
    let paths: Vec<&str> = shown.iter().filter_map(|call| call["path"].as_str()).collect();
    assert_eq!(paths, ["/test.Test/Fast", "/test.Test/Failing", "/test.Test/Slow", "/test.Test/Slow"]);
    assert_eq!(shown[0]["server"], stage.backend.address().to_string());
    assert_eq!(shown[0].get("request_headers"), None);
    assert_eq!(failed.next()["grpc_status"], 14);
    assert!(failed.child.wait().expect("it ends after one call").success());
    let slow = slow.next();
    assert!(slow["duration_ms"].as_f64().is_some_and(|ms| ms > 300.0), "{slow}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leno_tap_shows_calls_that_are_slow_for_their_own_method() {
    // Number of usual calls of each method: more than the tap needs to determine p90, so that a few slow calls on a
    // busy machine do not change p90.
    const USUAL: usize = 80;
    let stage = Stage::start(&[]).await;
    let mut tap = Tap::start(&stage.proxy, &["--slower-than", "p90"]);
    // A call with this delay is slow for the method `Fast`, but usual for the method `Slow`.
    let slow = |method: &str| Call::new(method).with("delay-ms", "100");
    for _ in 0..USUAL {
        stage.call(&Call::new("Fast")).await;
        stage.call(&slow("Slow")).await;
    }
    stage.call(&slow("Fast")).await;
    let is_last = |call: &Value| call["path"] == "/test.Test/Fast" && call["duration_ms"].as_f64() >= Some(100.0);
    let before = std::iter::repeat_with(|| tap.next()).take_while(|call| !is_last(call)).count();
    // The tap shows only a few of the 160 usual calls: no calls before it has determined the percentile, and about a
    // tenth of the later calls.
    assert!(before < USUAL / 2, "{before}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_shown_only_where_they_are_allowed_and_never_with_secrets() {
    let closed = Stage::start(&[]).await;
    let admin = closed.proxy.admin().to_string();
    let refused = run("leno", &["tap", "--headers", "--admin", &admin], SOON);
    let why = text(&refused);
    assert!(!refused.status.success() && why.contains("leno.dev/tap-headers: allowed"), "{why}");

    let open = Stage::start(&["--tap-headers"]).await;
    let mut tap = Tap::start(&open.proxy, &["--headers"]);
    open.call(&Call::new("Echo").with("authorization", "Bearer hunter2").with("x-shown", "yes")).await;
    let call = tap.next();
    let has = |field: &str, name: &str, value: &str| {
        call[field].as_array().is_some_and(|fields| fields.contains(&serde_json::json!([name, value])))
    };
    assert!(has("request_headers", "x-shown", "yes") && has("request_headers", "authorization", "(blanked)"), "{call}");
    assert!(has("response_headers", ":status", "200") && has("response_trailers", "grpc-status", "0"), "{call}");
    assert!(!call.to_string().contains("hunter2"), "{call}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_that_do_not_read_their_taps_delay_no_call_and_take_little_memory() {
    const TAPS: usize = 4;
    const CALLS: usize = 10_000;
    let stage = Stage::start(&[]).await;
    let begin = || {
        let mut tap = TcpStream::connect(stage.proxy.admin()).expect("the admin endpoint listens");
        let selection = r#"{"rate": 10000}"#;
        let length = selection.len();
        write!(tap, "POST /tap HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{selection}").expect("it reads");
        let mut status = [0; 12];
        tap.read_exact(&mut status).expect("an answer");
        (tap, String::from_utf8_lossy(&status).into_owned())
    };
    let taps: Vec<_> = (0..TAPS).map(|_| begin()).collect();
    assert!(taps.iter().all(|(_, status)| status == "HTTP/1.1 200"), "{taps:?}");
    assert_eq!(begin().1, "HTTP/1.1 503", "there are as many taps as there may be");
    let before_kib = stage.proxy.resident_kib();
    for _ in 0..CALLS {
        stage.call(&Call::new("Text")).await;
    }
    // For each of the four taps, the proxy holds at most 256 KiB of lines. In addition, it holds a few pieces of up to
    // 256 KiB until the user's connection accepts them.
    let grown_kib = stage.proxy.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 16 * 1_024, "{grown_kib} KiB");
    drop(taps);
    wait_for("the taps end and make room", SOON, || (begin().1 == "HTTP/1.1 200").then_some(()));
}

/// A Service with a rule of its own for calls with `x-canary: yes`, and with a time limit for all calls.
fn canary(backend: &Backend) -> Service {
    let rules = "- name: asked-for\n  matches:\n  - headers:\n    - {name: x-canary, value: 'yes'}\n  \
                 backendRefs: [{name: echo, port: 50051}]\n- name: rest\n  backendRefs: [{name: echo, port: 50051}]\n";
    Service::echo(&[backend.address()]).grpc_routed(rules).policed("timeouts: {request: 7s}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leno_explain_names_the_rule_the_limits_and_the_endpoint_of_a_call() {
    let backend = Backend::start().await;
    let proxy = Proxy::start_with(free_address(), &[canary(&backend)], &[]);
    let words = ["explain", "test.Test/Fast", ECHO, "-H", "X-Canary: yes"];
    let shown = leno(&proxy, &words);
    let endpoint = backend.address().to_string();
    assert!(shown.starts_with(&format!("would go to {endpoint} (echo.default:50051)\n")), "{shown}");
    assert!(shown.contains("GRPCRoute default/echo, rule asked-for: "), "{shown}");
    assert!(shown.contains("7000 ms, set by TrafficPolicy default/echo"), "{shown}");
    let rest = leno(&proxy, &words[..3]);
    assert!(
        rest.contains("not GRPCRoute default/echo, rule asked-for: header x-canary = \"yes\": the call has none"),
        "{rest}"
    );

    // With `--config`, `leno explain` needs no proxy and gives the same answer.
    let config = proxy.directory().path().display().to_string();
    let alone = run_well("leno", &["explain", "test.Test/Fast", ECHO, "--config", &config], SOON);
    assert!(alone.contains("rule rest") && alone.contains(&endpoint), "{alone}");
    let answer = json(&leno(&proxy, &["explain", "GET /items", ECHO, "-o", "json"]));
    assert_eq!(answer["answer"]["outcome"], "sent", "{answer}");
    assert_eq!(backend.calls(), 0, "no call is made");

    let admin = proxy.admin().to_string();
    let unknown = run("leno", &["explain", "test.Test/Fast", "nobody:80", "--admin", &admin], SOON);
    assert_eq!(unknown.status.code(), Some(3), "{}", text(&unknown));
    assert!(text(&unknown).starts_with("would fail with no-route: there is no Service nobody"), "{}", text(&unknown));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leno_explain_names_the_ports_of_a_service_that_lacks_the_asked_port() {
    let backend = Backend::start().await;
    let services = [Service::echo(&[backend.address()]), Service::new("web", &[backend.address()])];
    let proxy = Proxy::start_with(free_address(), &services, &[]);
    let admin = proxy.admin().to_string();
    let config = proxy.directory().path().display().to_string();
    let line = "would fail with no-route: Service echo in namespace default has no port 80: write echo.default:50051 ";
    for place in [["--admin", &admin], ["--config", &config]] {
        // A client that names no port calls port 80.
        let output = run("leno", &[&["explain", "test.Test/Fast", "echo.default"], &place[..]].concat(), SOON);
        let story = text(&output);
        assert!(
            output.status.code() == Some(3) && story.starts_with(line) && !story.contains("web.default"),
            "{story}"
        );
    }
}

#[test]
fn leno_explain_names_the_policy_and_the_line_that_decide() {
    let directory = tempfile::TempDir::new().expect("there is room");
    let endpoint = "127.0.0.1:50061".parse().expect("an address");
    let service = Service::echo(&[endpoint]).endpoint_annotated(endpoint, "leno.dev/identity", "ns/default/sa/echo");
    let policy = "---\napiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: echo}\n\
                  spec: {allow: [{identities: [ns/shop/sa/web]}]}\n";
    std::fs::write(directory.path().join("echo.yaml"), service.to_yaml() + policy).expect("there is room");
    let config = directory.path().display().to_string();
    let explain = |from: &str| {
        let words = ["explain", "test.Test/Fast", ECHO, "--config", &config, "--from", from];
        let output = run("leno", &words, SOON);
        (output.status.code(), text(&output))
    };
    let (code, denied) = explain("shop/batch");
    let why = "would be denied at 127.0.0.1:50061 (echo.default:50051) by AuthorizationPolicy default/echo";
    assert!(code == Some(3) && denied.starts_with(why), "{code:?} {denied}");
    assert!(denied.lines().take(2).collect::<String>().contains("allows only ns/shop/sa/web"), "{denied}");
    let (code, allowed) = explain("shop/web");
    assert!(code == Some(0) && allowed.starts_with("would go to 127.0.0.1:50061"), "{code:?} {allowed}");
    assert!(allowed.contains("spec.allow[0].identities[0] (ns/shop/sa/web)"), "{allowed}");
}
