use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicUsize, Ordering};

use envoy_types::pb::google::protobuf::Any;
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use leno_relay::metrics::Direction;
use leno_relay::trace::Dropped;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;

use super::*;

/// A collector that gives each request the same answer.
#[derive(Debug, Clone, Default)]
struct TestCollector(Arc<Answer>);

#[derive(Debug, Default)]
struct Answer {
    /// Number of the answer's status.
    code: AtomicI32,
    /// Number of spans that an answer without an error rejects.
    rejected_spans: AtomicI64,
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl TestCollector {
    /// Starts the collector. Returns an exporter's connection to it.
    async fn start(&self) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let server = tonic::transport::Server::builder().add_service(self.clone());
        let answer = self.0.clone();
        let incoming = TcpIncoming::from(listener).inspect(move |_| {
            answer.connections.fetch_add(1, Ordering::Relaxed);
        });
        tokio::spawn(server.serve_with_incoming(incoming));
        connection(address)
    }
}

impl NamedService for TestCollector {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

impl Service<http::Request<Body>> for TestCollector {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        let codec = ProstCodec::<ExportTraceServiceResponse, ExportTraceServiceRequest>::default();
        Box::pin(async move { Ok(tonic::server::Grpc::new(codec).unary(service, request).await) })
    }
}

impl UnaryService<ExportTraceServiceRequest> for TestCollector {
    type Response = ExportTraceServiceResponse;
    type Future = Ready<Result<tonic::Response<Self::Response>, tonic::Status>>;

    fn call(&mut self, _: tonic::Request<ExportTraceServiceRequest>) -> Self::Future {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        let code = Code::from_i32(self.0.code.load(Ordering::Relaxed));
        if code != Code::Ok {
            return ready(Err(Status::new(code, "as the test says")));
        }
        let rejected_spans = self.0.rejected_spans.load(Ordering::Relaxed);
        let partial_success = ExportTracePartialSuccess { rejected_spans, error_message: "too many".to_owned() };
        ready(Ok(tonic::Response::new(ExportTraceServiceResponse { partial_success: Some(partial_success) })))
    }
}

fn connection(address: SocketAddr) -> Connection {
    Connection { name: address.to_string(), address, channel: None, latest: Latest::Accepted }
}

#[tokio::test]
async fn calls_whose_spans_the_collector_rejects_count_as_dropped() {
    let test = TestCollector::default();
    let mut collector = test.start().await;
    // Two calls with four spans.
    let calls = [Direction::Outbound, Direction::Inbound].map(otlp::tests::call);
    let resource = otlp::resource(None, None, Vec::new());

    for (rejected_spans, exported, dropped) in
        [(0, 2, 0), (-1, 2, 0), (1, 1, 1), (2, 1, 1), (3, 0, 2), (4, 0, 2), (i64::MAX, 0, 2)]
    {
        test.0.rejected_spans.store(rejected_spans, Ordering::Relaxed);
        let outbox = Outbox::default();
        collector.export(&calls, &resource, &outbox).await;
        let counted = (outbox.exported(), outbox.dropped(Dropped::Collector));
        assert_eq!(counted, (exported, dropped), "{rejected_spans} of 4 spans are rejected");
    }
}

#[tokio::test]
async fn an_error_that_lasts_costs_one_request_and_no_new_connection() {
    let test = TestCollector::default();
    let mut collector = test.start().await;
    let (calls, outbox) = ([otlp::tests::call(Direction::Inbound)], Outbox::default());
    let resource = otlp::resource(None, None, Vec::new());

    test.0.code.store(Code::Unauthenticated as i32, Ordering::Relaxed);
    for batches in 1..=3 {
        collector.export(&calls, &resource, &outbox).await;
        assert_eq!(test.0.requests.load(Ordering::Relaxed), batches);
        assert_eq!(outbox.dropped(Dropped::Collector), batches as u64);
    }
    test.0.code.store(Code::Ok as i32, Ordering::Relaxed);
    collector.export(&calls, &resource, &outbox).await;
    assert_eq!((outbox.exported(), test.0.connections.load(Ordering::Relaxed)), (1, 1));
}

/// A collector whose error details are not base64. Sends them in the headers or in the trailers.
#[derive(Clone)]
struct Malformed {
    in_trailers: bool,
}

impl NamedService for Malformed {
    const NAME: &'static str = TestCollector::NAME;
}

impl Service<http::Request<Body>> for Malformed {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        let mut status = http::HeaderMap::new();
        for (name, value) in [("grpc-status", "3"), ("grpc-message", "why"), ("grpc-status-details-bin", "!")] {
            status.insert(name, http::HeaderValue::from_static(value));
        }
        let mut answer = http::Response::new(Body::empty());
        match self.in_trailers {
            true => *answer.body_mut() = Body::new(Body::empty().with_trailers(ready(Some(Ok(status))))),
            false => *answer.headers_mut() = status,
        }
        answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/grpc"));
        ready(Ok(answer))
    }
}

#[tokio::test]
async fn malformed_error_details_of_a_collector_are_ignored() {
    for in_trailers in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut collector = connection(listener.local_addr().expect("its address"));
        let server = tonic::transport::Server::builder().add_service(Malformed { in_trailers });
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

        let failure = collector.send(Bytes::new()).await.expect_err("an error");
        let Failure::Answered(status) = failure else { panic!("{failure}") };
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "why"));
        assert!(status.details().is_empty());
    }
}

#[test]
fn only_errors_that_may_pass_are_retried() {
    let passing =
        [Code::Cancelled, Code::DeadlineExceeded, Code::Aborted, Code::OutOfRange, Code::Unavailable, Code::DataLoss];
    for code in (1..=16).map(Code::from_i32) {
        let failure = Failure::from(Status::new(code, "why"));
        assert_eq!(failure.may_retry(), passing.contains(&code), "{code:?}");
    }

    for (kind, may_retry) in [("RetryInfo", true), ("BadRequest", false)] {
        let detail = Any { type_url: format!("type.googleapis.com/google.rpc.{kind}"), ..Default::default() };
        let details = rpc::Status { details: vec![detail], ..Default::default() }.encode_to_vec();
        let status = Status::with_details(Code::ResourceExhausted, "why", details.into());
        assert_eq!(Failure::from(status).may_retry(), may_retry, "{kind}");
    }
    let malformed = Status::with_details(Code::ResourceExhausted, "why", Bytes::from_static(b"\xff"));
    assert!(!Failure::from(malformed).may_retry());
}

#[test]
fn a_broken_connection_is_no_answer() {
    let mut status = Status::unknown("transport error");
    status.set_source(Arc::new(io::Error::other("connection reset")));
    let failure = Failure::from(status);
    assert!(matches!(failure, Failure::Unanswered(_)) && failure.may_retry());
    assert_eq!(failure.to_string(), "connection reset");
}

/// The lines of a log.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_outage_of_a_collector_that_rejects_spans_has_a_line_and_so_has_what_follows() {
    let (lines, mut collector) = (Lines::default(), connection("127.0.0.1:4317".parse().expect("an address")));
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(log, || {
        let rejection = Rejection { spans: 3, why: "too many".to_owned() };
        // The collector gives each result twice, but only a change of the result logs a line.
        for what in ["rejects", "fails", "rejects", "accepts", "fails", "accepts"] {
            for _ in 0..2 {
                match what {
                    "rejects" => collector.note_answer(Some(&rejection)),
                    "fails" => collector.note_failure(&Failure::Unanswered("connection refused".to_owned())),
                    _ => collector.note_answer(None),
                }
            }
        }
    });
    let log = String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("text");
    let expected = ["rejects 3 spans", "no spans", "rejects 3 spans", "spans again", "no spans", "spans again"];
    assert_eq!(log.lines().count(), expected.len(), "{log}");
    for (line, expected) in log.lines().zip(expected) {
        assert!(line.contains(expected), "no {expected:?} in {line}");
    }
}
