use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use leno_admin::logging::LogLevels;
use leno_admin::{CONNECTIONS_MAX, serve};
use leno_config::{Configuration, Directory};
use leno_model::discovery::Subject;
use leno_model::mesh::Mesh;
use leno_relay::limits::Limits;
use leno_relay::metrics::WorkerMetrics;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::timeout;
use tracing_subscriber::{Registry, filter::Targets, reload};

use super::{answer, answer_tap_port};
use crate::control::fixtures::shared;
use crate::control::shared::{Phase, Shared};
use crate::metrics::ConfigMetrics;

/// An admin endpoint on loopback, for a proxy with one Service and no worker thread.
struct Admin {
    address: SocketAddr,
    shared: Rc<Shared>,
    _log: reload::Layer<Targets, Registry>,
}

impl Admin {
    async fn start() -> Self {
        let manifests = TempDir::new().expect("there is room");
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: echo}\nspec: {ports: [{port: 50051}]}\n";
        std::fs::write(manifests.path().join("echo.yaml"), service).expect("there is room");
        let configuration = Directory::open(manifests.path()).expect("it is there").configuration();
        let (log, layer) = LogLevels::new("info".parse().expect("it is a level"));
        let shared = Rc::new(Shared {
            config_metrics: Cell::new(ConfigMetrics::default().after_read(0, SystemTime::now())),
            worker_metrics: vec![WorkerMetrics::new()],
            ..shared(configuration, log)
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let serving = shared.clone();
        spawn_local(serve(listener, async move |request| answer(request, &serving).await));
        Self { address, shared, _log: layer }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    async fn exchange(&self, request: &[u8]) -> String {
        exchange(self.address, request).await
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> String {
        send(self.address, method, path, body).await
    }

    async fn get(&self, path: &str) -> String {
        self.send("GET", path, "").await
    }

    /// Requests a page with additional header lines.
    async fn get_with(&self, path: &str, lines: &str) -> String {
        self.exchange(format!("GET {path} HTTP/1.1\r\nhost: admin\r\n{lines}\r\n").as_bytes()).await
    }
}

/// Sends bytes and returns everything until the connection ends.
async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request).await.expect("it reads");
    let mut answer = String::new();
    let reading = stream.read_to_string(&mut answer);
    timeout(Duration::from_secs(20), reading).await.expect("it ends").expect("it is text");
    answer
}

async fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: admin\r\ncontent-length: {length}\r\n\r\n{body}");
    exchange(address, request.as_bytes()).await
}

/// Runs a test with an admin endpoint.
fn with_admin<F: Future<Output = ()>>(test: impl FnOnce(Rc<Admin>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    LocalSet::new().block_on(&runtime, async {
        test(Rc::new(Admin::start().await)).await;
    });
}

#[track_caller]
fn assert_status(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "not {status}: {answer}");
}

#[track_caller]
fn json(answer: &str) -> serde_json::Value {
    assert_status(answer, 200);
    assert!(answer.contains("content-type: application/json\r\n"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("it has a body");
    serde_json::from_str(body).expect("it is JSON")
}

#[test]
fn ready_turns_to_503_while_draining_and_live_does_not() {
    with_admin(|admin| async move {
        assert_status(&admin.get("/ready").await, 200);
        admin.shared.phase.set(Phase::Draining);
        let answer = admin.get("/ready").await;
        assert_status(&answer, 503);
        assert!(answer.contains("draining"), "{answer}");
        assert_status(&admin.get("/live").await, 200);
    });
}

#[test]
fn ready_comes_when_it_is_known_who_may_call() {
    with_admin(|admin| async move {
        let knowing = |subjects: &[Subject]| {
            let mesh = Mesh::empty().answering(subjects.iter().cloned());
            admin.shared.configuration.replace(Configuration::of_mesh(Arc::new(mesh)));
        };
        knowing(&[]);
        let answer = admin.get("/ready").await;
        assert_status(&answer, 503);
        assert!(answer.ends_with("\r\n\r\nwaiting for the control plane: its policies\n"), "{answer}");
        assert_status(&admin.get("/live").await, 200);
        knowing(&[Subject::Inbound]);
        assert_status(&admin.get("/ready").await, 200);
    });
}

#[test]
fn metrics_come_in_the_form_that_is_asked_for() {
    with_admin(|admin| async move {
        admin.shared.worker_metrics[0].count_abuse("rapid_reset");
        let sample = "\nleno_abuse_closed_total{kind=\"rapid_reset\"} 1\n";
        for accept in ["", "Accept: */*\r\n", "Accept: text/plain;version=0.0.4\r\n"] {
            let answer = admin.get_with("/metrics", accept).await;
            assert_status(&answer, 200);
            assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
            assert!(answer.contains("\n# TYPE leno_abuse_closed_total counter\n"), "{answer}");
            assert!(answer.contains(sample) && !answer.contains("# EOF"), "{answer}");
        }
        let answer = admin.get_with("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n").await;
        assert_status(&answer, 200);
        let content_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
        assert!(answer.contains(content_type), "{answer}");
        assert!(answer.contains("\n# TYPE leno_abuse_closed counter\n"), "{answer}");
        assert!(answer.contains(sample) && answer.ends_with("# EOF\n"), "{answer}");
    });
}

#[test]
fn config_shows_the_mesh_and_the_files() {
    with_admin(|admin| async move {
        let config = json(&admin.get("/config").await);
        assert_eq!(config["mesh"]["clusters"][0]["key"], "echo.default:50051");
        assert_eq!(config["files"][0]["serving"], "current");
        assert_eq!(config["problems"], serde_json::json!([]));
    });
}

#[test]
fn balancer_and_limits_are_json() {
    with_admin(|admin| async move {
        let balancer = json(&admin.get("/balancer").await);
        assert_eq!(balancer, serde_json::json!({"clusters": [], "silent_workers": []}));
        assert_eq!(json(&admin.get("/limits").await).as_array().map(Vec::len), Some(Limits::default().list().len()));
    });
}

#[test]
fn log_levels_can_be_read_and_changed() {
    with_admin(|admin| async move {
        assert!(admin.get("/log-level").await.ends_with("\r\n\r\ninfo\n"));
        assert_status(&admin.send("PUT", "/log-level", "info,leno_proxy=debug\n").await, 200);
        assert!(admin.get("/log-level").await.ends_with("\r\n\r\ninfo,leno_proxy=debug\n"));

        let answer = admin.send("PUT", "/log-level", "loud").await;
        assert_status(&answer, 400);
        assert!(answer.contains("off, error, warn"), "{answer}");
        assert!(admin.get("/log-level").await.ends_with("info,leno_proxy=debug\n"));
    });
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    with_admin(|admin| async move {
        let answer = admin.send("PUT", "/log-level", &"x".repeat(5_000)).await;
        assert_status(&answer, 413);
    });
}

#[test]
fn the_first_page_lists_pages_that_exist() {
    with_admin(|admin| async move {
        let contents = admin.get("/").await;
        let paths: Vec<_> = contents.lines().filter_map(|line| line.strip_prefix("GET ")).collect();
        assert_eq!(paths.len(), 8);
        for path in paths.iter().filter_map(|line| line.split_whitespace().next()) {
            assert_status(&admin.get(path).await, 200);
        }
    });
}

#[test]
fn unknown_pages_are_404_and_wrong_methods_405_with_the_right_ones() {
    with_admin(|admin| async move {
        assert_status(&admin.get("/nothing").await, 404);
        assert_status(&admin.send("POST", "/nothing", "").await, 404);
        let answer = admin.send("DELETE", "/config", "").await;
        assert_status(&answer, 405);
        assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
        let answer = admin.send("POST", "/log-level", "debug").await;
        assert_status(&answer, 405);
        assert!(answer.contains("allow: GET, HEAD, PUT\r\n"), "{answer}");
    });
}

#[test]
fn head_answers_like_get_without_a_body() {
    with_admin(|admin| async move {
        let answer = admin.send("HEAD", "/ready", "").await;
        assert_status(&answer, 200);
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    });
}

#[test]
fn a_header_that_never_ends_closes_the_connection() {
    with_admin(|admin| async move {
        let endless = [b"GET / HTTP/1.1\r\nx: ".as_slice(), &[b'a'; 100_000]].concat();
        let mut stream = admin.connect().await;
        // Ignore errors: the server may close the connection before it has read the whole header.
        let _ = stream.write_all(&endless).await;
        let mut answer = Vec::new();
        let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("it ends");
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "));
        assert_status(&admin.get("/live").await, 200);
    });
}

#[test]
fn connections_that_say_nothing_make_room_at_once() {
    with_admin(|admin| async move {
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(admin.connect().await);
        }
        let asked = Instant::now();
        assert_status(&admin.get("/live").await, 200);
        // Without room, the request would wait until the server closes a silent connection, after 5 s.
        assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
        for mut stream in silent {
            let mut nothing = Vec::new();
            let _ = stream.read_to_end(&mut nothing).await;
            assert!(nothing.is_empty());
        }
    });
}

#[test]
fn explain_takes_a_question_and_refuses_what_is_none() {
    with_admin(|admin| async move {
        let answer = admin.get("/explain").await;
        assert_status(&answer, 405);
        let question = r#"{"side": {"outbound": {"authority": "echo:50051"}}, "method": "GET", "path": "/"}"#;
        // This endpoint has no worker that could answer.
        assert_status(&admin.send("POST", "/explain", question).await, 503);
        let unknown_field = question.replace("\"path\"", "\"paths\"");
        let hostile = question.replace("\"/\"", "\"/\\u001b[2J\"");
        for wrong in ["", "{", "[]", unknown_field.as_str(), hostile.as_str()] {
            let answer = admin.send("POST", "/explain", wrong).await;
            assert_status(&answer, 400);
            assert!(answer.contains("the question is not understood: ") && !answer.contains('\u{1b}'), "{answer}");
        }
        assert_status(&admin.send("POST", "/explain", &" ".repeat(5_000)).await, 413);
        assert!(admin.get("/").await.contains("\nPOST /explain "));
    });
}

#[test]
fn the_port_of_taps_has_calls_and_taps_and_no_other_page() {
    with_admin(|admin| async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let serving = admin.shared.clone();
        spawn_local(leno_admin::serve_behind_proxy("tap", listener, async move |request| {
            answer_tap_port(request, &serving).await
        }));
        assert_status(&send(address, "GET", "/calls", "").await, 200);
        for (method, path, status) in [
            ("POST", "/calls", 405),
            ("GET", "/tap", 405),
            ("POST", "/tap", 400),
            ("PUT", "/log-level", 404),
            ("GET", "/config", 404),
            ("POST", "/explain", 404),
            ("GET", "/metrics", 404),
        ] {
            assert_status(&send(address, method, path, "").await, status);
        }
    });
}
