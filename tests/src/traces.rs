//! Traces by OpenTelemetry: its collector, and an instrumented client and server on grpc-go (tests/go/traced).

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

pub use leno_testing::skipped;

use crate::programs::{self, Server, program};
use crate::proxy::{free_address, wait_for};

/// Longest time for a program to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time from the end of a call until the collector has written all of its spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest time by which a span may start before its parent, in nanoseconds: a proxy may use one reading of the clock
/// for several events.
pub const START_SLACK_NS: u64 = 10_000_000;
/// Largest time by which a span may end after its parent, in nanoseconds: on a busy machine, the server may end its
/// span only after the client has received the whole response.
const END_SLACK_NS: u64 = 500_000_000;
/// The gRPC service that clients call. [`METHOD`] is the method.
pub const SERVICE: &str = "grpc.testing.TestService";
pub const METHOD: &str = "UnaryCall";

/// Returns whether the programs of this module are installed. If not, prints that the test is skipped.
pub fn are_installed() -> bool {
    let missing: Vec<_> = ["otel-collector", "traced"].into_iter().filter(|name| !program(name).is_file()).collect();
    if !missing.is_empty() {
        skipped(&format!("{} not built: Go's modules could not be had; type: ./test install", missing.join(" and ")));
    }
    missing.is_empty()
}

/// Kind of a span. Calls have only these three of OTLP's kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Internal,
    Server,
    Client,
}

/// A span, as the collector received it.
#[derive(Debug, Clone)]
pub struct Span {
    /// `service.name` of the resource.
    pub service: String,
    pub trace: String,
    pub id: String,
    /// The id of the parent span; empty for a root span.
    pub parent: String,
    pub kind: Kind,
    pub name: String,
    /// The start time, in nanoseconds since 1970.
    pub start: u64,
    pub end: u64,
    /// Whether the span's status is an error.
    pub failed: bool,
    attributes: Vec<(String, String)>,
}

impl Span {
    fn read(service: &str, span: &Value) -> Self {
        let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
        // OTLP's JSON encodes numbers of 64 bits as strings.
        let time = |name: &str| text(name).parse().unwrap_or_else(|_| panic!("no {name} in {span}"));
        Self {
            service: service.to_owned(),
            trace: text("traceId"),
            id: text("spanId"),
            parent: text("parentSpanId"),
            kind: match span["kind"].as_u64() {
                Some(1) => Kind::Internal,
                Some(2) => Kind::Server,
                Some(3) => Kind::Client,
                _ => panic!("a kind that no call has: {span}"),
            },
            name: text("name"),
            start: time("startTimeUnixNano"),
            end: time("endTimeUnixNano"),
            failed: span["status"]["code"] == 2,
            attributes: attributes(&span["attributes"]),
        }
    }

    /// Returns an attribute as text.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether the attributes contain `address`: in one attribute, or in the two attributes NAME.address and
    /// NAME.port.
    pub fn names_address(&self, address: SocketAddr) -> bool {
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        self.attributes.iter().any(|(key, value)| {
            let beside = key.strip_suffix(".address").and_then(|name| self.attribute(&format!("{name}.port")));
            *value == address.to_string() || (*value == ip && beside == Some(&port))
        })
    }

    /// Whether the attribute `rpc.method` contains [`SERVICE`] and [`METHOD`], joined with a slash as in newer
    /// conventions.
    pub fn names_method(&self) -> bool {
        self.attribute("rpc.method") == Some(&format!("{SERVICE}/{METHOD}"))
    }
}

/// Reads a list of attributes; each value has one field, named after its type.
fn attributes(list: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let value = |value: &Value| value.as_object().and_then(|fields| fields.values().next()).map(text);
    let attribute = |entry: &Value| Some((entry["key"].as_str()?.to_owned(), value(&entry["value"])?));
    list.as_array().into_iter().flatten().filter_map(attribute).collect()
}

/// Reads the spans that a collector has written; each line is one export.
///
/// # Panics
/// If a line is no export.
pub fn read_spans<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Span> {
    let read = |line| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let mut spans = Vec::new();
    for resource in lines.map(read).flat_map(|line| list(&line, "resourceSpans")) {
        let attributes = attributes(&resource["resource"]["attributes"]);
        let service = attributes.iter().find(|(key, _)| key == "service.name").map_or("", |(_, value)| value);
        let scopes = list(&resource, "scopeSpans");
        let of_scope = |scope: &Value| list(scope, "spans");
        spans.extend(scopes.iter().flat_map(of_scope).map(|span| Span::read(service, &span)));
    }
    spans
}

/// Checks that the spans are a chain, in which each span is the parent of the next one, and returns them in this order.
/// The parent of the first span is not in `spans`.
///
/// # Panics
/// If the spans are no chain, or a span is not within its parent.
pub fn chain(spans: &[Span]) -> Vec<&Span> {
    let is_first = |span: &&Span| spans.iter().all(|other| other.id != span.parent);
    let firsts: Vec<&Span> = spans.iter().filter(is_first).collect();
    assert_eq!(firsts.len(), 1, "spans without their parent: {firsts:#?} of {spans:#?}");
    let mut chain = firsts;
    while chain.len() < spans.len() {
        let parent = chain[chain.len() - 1];
        let children = children(spans, parent);
        assert_eq!(children.len(), 1, "children of {parent:#?}: {spans:#?}");
        assert_within(children[0], parent);
        chain.extend(children);
    }
    chain
}

/// The children of a span, the earliest first.
pub fn children<'a>(spans: &'a [Span], parent: &Span) -> Vec<&'a Span> {
    let mut children: Vec<&Span> = spans.iter().filter(|span| span.parent == parent.id).collect();
    children.sort_by_key(|span| span.start);
    children
}

/// Checks that a span lies within its parent.
///
/// # Panics
/// If it does not.
pub fn assert_within(child: &Span, parent: &Span) {
    let nests = child.start + START_SLACK_NS >= parent.start && child.end <= parent.end + END_SLACK_NS;
    assert!(nests && child.start <= child.end, "{child:#?} is not within {parent:#?}");
}

/// The service and the kind of each span.
pub fn services(chain: &[&Span]) -> Vec<(String, Kind)> {
    chain.iter().map(|span| (span.service.clone(), span.kind)).collect()
}

/// A running OpenTelemetry Collector that writes its spans to a file. Dropping this value kills the collector.
#[derive(Debug)]
pub struct Collector {
    child: Child,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Collector {
    /// Starts a collector, and waits until it receives spans.
    pub fn start() -> Self {
        Self::start_on(free_address())
    }

    /// Starts a collector on `address`, and waits until it receives spans.
    pub fn start_on(address: SocketAddr) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| directory.path().join(name);
        let config = format!(
            "receivers:
  otlp: {{protocols: {{grpc: {{endpoint: \"{address}\"}}}}}}
exporters:
  file: {{path: \"{file}\", flush_interval: 50ms}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [file]}}
",
            file = path("spans").display()
        );
        fs::write(path("config.yaml"), config).expect("the directory is ours");
        let log = fs::File::create(path("log")).expect("the directory is ours");
        let child = Command::new(program("otel-collector"))
            .arg("--config")
            .arg(path("config.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("otel-collector starts; ./test builds it");
        let collector = Self { child, address, directory };
        wait_for("the collector listens", START_TIMEOUT, || TcpStream::connect(address).ok());
        collector
    }

    /// The address of OTLP over gRPC.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns all spans received so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans_of_lines(|_| true)
    }

    /// Returns the spans of the lines for which `is_chosen` is true.
    fn spans_of_lines(&self, is_chosen: impl Fn(&&str) -> bool) -> Vec<Span> {
        let text = fs::read_to_string(self.path("spans")).unwrap_or_default();
        // The last line may be incomplete.
        read_spans(text.rsplit_once('\n').map_or("", |(whole, _)| whole).lines().filter(is_chosen))
    }

    /// Returns the spans of a trace received so far.
    pub fn trace(&self, trace: &str) -> Vec<Span> {
        // A collector that did not run for a while receives thousands of spans at once: parse only the lines that name
        // the trace.
        self.spans_of_lines(|line| line.contains(trace)).into_iter().filter(|span| span.trace == trace).collect()
    }

    /// Waits until a trace has `count` spans, and returns them.
    ///
    /// # Panics
    /// If the trace does not have exactly `count` spans in the end.
    pub fn whole_trace(&self, trace: &str, count: usize) -> Vec<Span> {
        let what = || format!("{count} spans of {trace}, of {:#?}", self.spans());
        let deadline = std::time::Instant::now() + EXPORT_TIMEOUT;
        while self.trace(trace).len() < count {
            assert!(std::time::Instant::now() < deadline, "no {}", what());
            thread::sleep(Duration::from_millis(10));
        }
        let spans = self.trace(trace);
        assert!(spans.len() == count, "more than {}", what());
        spans
    }

    /// Waits until a span of `service` has arrived, and returns the id of its trace.
    pub fn trace_of_service(&self, service: &str) -> String {
        wait_for(&format!("a span of {service}"), EXPORT_TIMEOUT, || {
            self.spans().into_iter().find(|span| span.service == service).map(|span| span.trace)
        })
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            let log = fs::read_to_string(self.path("log")).unwrap_or_default();
            eprintln!("--- the collector's log ---\n{log}\n---");
        }
    }
}

/// Starts `traced serve` with additional `arguments`, and waits until it listens. Without a collector, the server has
/// no instrumentation.
pub fn serve(collector: Option<SocketAddr>, arguments: &[&str]) -> (Server, SocketAddr) {
    let address = free_address();
    let (at, to) = (address.to_string(), collector.map_or(String::new(), |address| address.to_string()));
    let own = ["serve", "--listen", &at, "--collector", &to, "--service-name", "server"];
    let server = Server::start("traced", &[&own[..], arguments].concat());
    wait_for("traced listens", START_TIMEOUT, || TcpStream::connect(address).ok());
    (server, address)
}

/// One of the calls that the program `traced call` made.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    pub trace: String,
    /// The name of the gRPC status, such as `OK`.
    pub status: String,
}

/// Runs `traced call` with additional `arguments`, and returns its calls. Without a collector, the client has no
/// instrumentation.
pub fn call(target: SocketAddr, authority: &str, collector: Option<SocketAddr>, arguments: &[&str]) -> Vec<Called> {
    let (at, to) = (target.to_string(), collector.map_or(String::new(), |address| address.to_string()));
    let own = ["call", "--target", &at, "--authority", authority, "--collector", &to, "--service-name", "client"];
    let printed = programs::run_well("traced", &[&own[..], arguments].concat(), Duration::from_secs(60));
    let words = |line: &str| line.split_once(' ').map(|(trace, status)| (trace.to_owned(), status.to_owned()));
    let called = |line| words(line).map(|(trace, status)| Called { trace, status });
    printed.lines().map(|line| called(line).unwrap_or_else(|| panic!("{line}"))).collect()
}
