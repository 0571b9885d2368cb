//! `leno dashboard`: its figures, the requests that it rejects, and its page in a real browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leno_testing::skipped;
use leno_tests::backend::Backend;
use leno_tests::client::{Call, Client};
use leno_tests::dashboard::Dashboard;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::messages;
use leno_tests::programs::{program, run, run_well, text};
use leno_tests::proxy::{Proxy, free_address, wait_for};
use serde_json::Value;
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(30);
const BROWSER_MAX: Duration = Duration::from_secs(120);
const ATTACK: &str = "<img src=x onerror=alert(1)>";

/// Starts a dashboard of the proxies at these admin addresses.
fn dashboard(admins: &[SocketAddr]) -> Dashboard {
    let admins: Vec<String> = admins.iter().map(ToString::to_string).collect();
    Dashboard::start(&["--admin", &admins.join(",")], None)
}

/// Starts an admin endpoint that sends hostile names. The endpoint serves one connection after the other, until the
/// test ends.
fn hostile_admin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let name = format!("{ATTACK}\u{202e}\u{7}evil");
    let soon = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs() + 600;
    thread::spawn(move || {
        let mut calls = 0;
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 2_048];
            let _ = stream.read(&mut request);
            calls += 20;
            let to = format!("direction=\"outbound\",dst_namespace=\"evil\",dst_service=\"{name}\",dst_port=\"1\"");
            let method =
                format!("direction=\"inbound\",target_port=\"1\",grpc_service=\"{name}\",grpc_method=\"Slow\"");
            let burning = format!("{to},grpc_service=\"{name}\",grpc_method=\"Burning\"");
            let page = format!(
                "request_total{{{to},tls=\"true\"}} {calls}\n\
                 response_total{{{to},classification=\"failure\"}} {calls}\n\
                 leno_method_requests_total{{{method}}} {calls}\n\
                 leno_method_responses_total{{{method},classification=\"success\"}} {calls}\n\
                 leno_method_duration_seconds_bucket{{{method},le=\"0.5\"}} 0\n\
                 leno_method_duration_seconds_bucket{{{method},le=\"1.0\"}} {calls}\n\
                 leno_method_duration_seconds_bucket{{{method},le=\"+Inf\"}} {calls}\n\
                 leno_method_requests_total{{{burning}}} {calls}\n\
                 leno_method_objective_calls_total{{{burning},objective=\"success\"}} {calls}\n\
                 leno_method_objective_misses_total{{{burning},objective=\"success\"}} {calls}\n\
                 leno_method_objective_ratio{{{burning},objective=\"success\"}} 0.99\n\
                 inbound_http_authz_deny_total{{target_port=\"8080\",client_id=\"spiffe://x/ns/shop/sa/web\",\
                 authz_kind=\"authorizationpolicy\",authz_name=\"shop/only-cart\"}} 7\n\
                 control_identity_cert_expiration_timestamp_seconds {soon}\n"
            );
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}", page.len());
        }
    });
    address
}

/// A proxy in front of a backend, and a client that makes calls until this value is dropped.
struct Stage {
    _backend: Backend,
    proxy: Proxy,
    calling: JoinHandle<()>,
}

impl Stage {
    async fn start() -> Self {
        let backend = Backend::start().await;
        let echo = Service::echo(&[backend.address()]).annotated("leno.dev/objective", "success 99.9 %, p99 1s");
        let echo = echo.policed("timeouts: {request: 30s}");
        let proxy = Proxy::start_with(free_address(), &[echo], &[]);
        let client = Client::connect(proxy.outbound(), ECHO).await;
        let calling = tokio::spawn(async move {
            let (response, mut request) = client.open(&Call::new("Bidi")).await.expect("a stream");
            messages::send(&mut request, messages::message(b"one"), false).await.expect("the stream is open");
            let _body = response.await;
            loop {
                client.call(&Call::new("Fast"), b"hello").await;
                client.call(&Call::new("Slow").with("delay-ms", "30"), b"hello").await;
                client.call(&Call::new("Failing").with("reply-status", "14"), b"hello").await;
            }
        });
        Self { _backend: backend, proxy, calling }
    }
}

/// Asserts that there is a problem of each kind that a [`Stage`], the hostile admin endpoint and a dead proxy cause.
fn assert_every_kind(found: &Value) {
    let problems = found["problems"].as_array().expect("problems");
    let kinds: Vec<&str> = problems.iter().filter_map(|problem| problem["kind"].as_str()).collect();
    for kind in ["silent proxy", "failing calls", "certificate", "denied calls", "slow method", "objective"] {
        assert!(kinds.contains(&kind), "no {kind} in {kinds:?}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.calling.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_shows_services_methods_endpoints_streams_and_problems() {
    let stage = Stage::start().await;
    let dead = free_address();
    let dashboard = dashboard(&[stage.proxy.admin(), hostile_admin(), dead]);
    let mesh = wait_for("Services with calls", SOON, || {
        let mesh = dashboard.json("/api/mesh");
        let echo = mesh["services"].as_array()?.iter().find(|row| row["id"] == "default/echo")?;
        let is_ready = echo["success_rate"].is_number() && mesh["silent"] == 1 && mesh["counted"] == 2;
        is_ready.then(|| (echo.clone(), mesh.clone()))
    });
    let (echo, mesh) = mesh;
    let success = echo["success_rate"].as_f64().expect("a share");
    assert!((0.5..0.8).contains(&success), "one call of three fails: {echo}");
    assert_every_kind(&mesh);
    assert!(mesh.to_string().contains("AuthorizationPolicy shop/only-cart"), "{mesh}");
    assert!(mesh.to_string().contains(ATTACK) && !mesh.to_string().contains(['\u{202e}', '\u{7}']), "{mesh}");

    let service = dashboard.json("/api/service?id=default%2Fecho");
    let methods: Vec<&str> =
        service["methods"].as_array().expect("methods").iter().filter_map(|row| row["method"].as_str()).collect();
    assert!(methods.contains(&"test.Test/Fast") && methods.contains(&"test.Test/Failing"), "{methods:?}");
    let failing = service["methods"].as_array().into_iter().flatten().find(|row| row["method"] == "test.Test/Failing");
    let shown = &failing.expect("a row")["shown_objective"];
    assert!(shown["text"] == "success 99.9 %, p99 1s" && shown["level"] == "error", "{shown}");
    assert!(shown["burn_rate"].as_f64().is_some_and(|burn| burn > 900.0) && shown["burn"].is_string(), "{shown}");
    assert!(shown["parts"].as_str().is_some_and(|parts| parts.contains("0.1 % may miss; latency: ")), "{shown}");
    let problems = mesh["problems"].to_string();
    assert!(problems.contains("misses its objective (success 99.9 %, p99 1s)"), "{problems}");
    let endpoints = dashboard.json("/api/endpoints?id=default%2Fecho");
    assert!(endpoints["endpoints"][0]["reason"].is_string(), "{endpoints}");
    let policies = dashboard.json("/api/policies?id=default%2Fecho");
    let limit = &policies["traffic"][0];
    assert!(limit["part"] == "timeouts.request" && limit["value"] == "30s", "{policies}");
    assert_eq!(limit["set_by"], "TrafficPolicy default/echo");
    let answered = [&policies["callers"]["answered"], &policies["own"]["asked"]];
    assert!(answered[0] == 1 && answered[1] == 0, "the Service has no proxy of its own: {policies}");
    let calls = dashboard.json("/api/calls");
    assert!(calls.to_string().contains("test.Test/Bidi"), "{calls}");
    let proxies = dashboard.json("/api/proxies");
    let rows = proxies["proxies"].as_array().expect("rows");
    let levels: Vec<&str> = rows.iter().filter_map(|row| row["level"].as_str()).collect();
    assert_eq!(levels, ["error", "warning", "good"], "the silent one, the one whose certificate ends, ours: {proxies}");
    assert!(rows[0]["state"] == "silent" && rows[0]["why"][0].is_string(), "{proxies}");
    assert!(rows[1]["certificate"]["text"] == "in 9 min" && rows[1]["why"][0].is_string(), "{proxies}");
    assert_eq!(rows[2]["version"], env!("CARGO_PKG_VERSION"), "{proxies}");
    let graph = dashboard.json("/api/graph");
    assert!(
        graph["edges"].as_array().is_some_and(|edges| edges.iter().any(|edge| edge["to"] == "default/echo")),
        "{graph}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_problems_of_the_page_are_printed_in_the_terminal() {
    let stage = Stage::start().await;
    let admins = [stage.proxy.admin(), hostile_admin(), free_address()].map(|admin| admin.to_string()).join(",");
    let problems = |format| {
        let output = run("leno", &["problems", "--admin", &admins, "--window", "8s", "-o", format], SOON);
        assert_eq!(output.status.code(), Some(3), "some problems are errors: {}", text(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let (table, json) = tokio::task::block_in_place(|| (problems("table"), problems("json")));
    assert!(table.lines().next().is_some_and(|line| line.starts_with("error    ")), "{table}");
    assert!(table.lines().last().is_some_and(|line| line.ends_with("; 2 proxies watched for 8s")), "{table}");
    assert!(
        table.contains("default/echo fails ") && table.contains("-> leno stat methods --to echo.default --admin 127."),
        "{table}"
    );
    assert!(table.contains(ATTACK) && !table.contains(['\u{202e}', '\u{7}']), "{table}");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_every_kind(&json);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tap_of_the_dashboard_begins_and_ends_with_its_reader() {
    let stage = Stage::start().await;
    let dashboard = dashboard(&[stage.proxy.admin()]);
    let mut stream = TcpStream::connect(dashboard.address()).expect("it listens");
    write!(stream, "GET /api/tap?failed=1 HTTP/1.1\r\n{}\r\n", dashboard.signed()).expect("it reads");
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
    let failed = lines.find_map(|line| line.ok().filter(|line| line.contains("test.Test/Failing")));
    assert!(failed.is_some_and(|line| line.starts_with("data: {") && line.contains("\"grpc_status\":14")));
    drop((lines, stream));
    wait_for("the proxy's tap ends", SOON, || stage.proxy.log().contains("a tap ended").then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_sites_other_names_and_requests_without_the_token_see_nothing() {
    let dashboard = dashboard(&[hostile_admin()]);
    let signed = dashboard.signed();
    let cookie = signed.strip_prefix(&dashboard.host()).expect("a cookie");
    let attempts = [
        (421, "/", format!("host: evil.example:{}\r\n{cookie}", dashboard.address().port())),
        (421, "/api/mesh", format!("host: evil.example\r\n{cookie}")),
        (403, "/api/mesh", format!("{signed}origin: http://evil.example\r\n")),
        (403, "/api/mesh", format!("{signed}sec-fetch-site: cross-site\r\n")),
        (403, "/api/tap", format!("{signed}sec-fetch-site: same-site\r\n")),
        (401, "/api/mesh", dashboard.host()),
        (401, "/", dashboard.host()),
        (401, "/app.js", dashboard.host()),
        (401, "/?token=00", dashboard.host()),
        (200, "/", signed.clone()),
    ];
    for (status, path, lines) in attempts {
        let answer = dashboard.request(path, &lines);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {lines}: {answer}");
        let head = answer.to_ascii_lowercase();
        let policy = "content-security-policy: default-src 'none'; script-src 'self';";
        assert!(head.contains(policy) && !head.contains("access-control-allow-origin"), "{answer}");
        assert!(head.contains("cache-control: no-store") && head.contains("referrer-policy: no-referrer"), "{answer}");
    }
    let page = dashboard.request("/", &signed);
    assert!(!page.contains("<script>") && !page.contains(" style=") && !page.contains(" onclick="), "{page}");
    let outside = run("leno", &["dashboard", "--listen", "0.0.0.0:0"], SOON);
    assert!(!outside.status.success() && text(&outside).contains("use a loopback address"), "{}", text(&outside));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_works_in_a_browser_and_stays_smooth_with_500_services() {
    if !program("dashboard-browser").is_file() || !std::path::Path::new("/usr/bin/chromium").is_file() {
        skipped("there is no Chromium with Playwright; ./test install installs them where there is npm");
        return;
    }
    let stage = Stage::start().await;
    let dashboard = dashboard(&[stage.proxy.admin(), hostile_admin(), free_address()]);
    let kept = std::env::var("DASHBOARD_SCREENSHOTS").ok();
    let directory = tempfile::tempdir().expect("a directory");
    let screenshots = kept.unwrap_or_else(|| directory.path().to_string_lossy().into_owned());
    let url = dashboard.url().to_owned();
    let printed =
        tokio::task::spawn_blocking(move || run_well("dashboard-browser", &[&url, &screenshots], BROWSER_MAX));
    println!("{}", printed.await.expect("it ends").trim());
}
