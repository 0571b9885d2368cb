use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use leno_relay::metrics::Direction;
use leno_relay::trace::Dropped;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;

use super::*;

/// A collector that answers each request with this number of rejected spans.
#[derive(Debug, Clone, Default)]
struct Rejecting(Arc<AtomicI64>);

impl NamedService for Rejecting {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

impl Service<http::Request<Body>> for Rejecting {
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

impl UnaryService<ExportTraceServiceRequest> for Rejecting {
    type Response = ExportTraceServiceResponse;
    type Future = Ready<Result<tonic::Response<Self::Response>, tonic::Status>>;

    fn call(&mut self, _: tonic::Request<ExportTraceServiceRequest>) -> Self::Future {
        let rejected_spans = self.0.load(Ordering::Relaxed);
        let partial_success = ExportTracePartialSuccess { rejected_spans, error_message: "too many".to_owned() };
        ready(Ok(tonic::Response::new(ExportTraceServiceResponse { partial_success: Some(partial_success) })))
    }
}

fn connection(address: SocketAddr) -> Connection {
    Connection { name: address.to_string(), address, channel: None, latest: Latest::Accepted }
}

#[tokio::test]
async fn calls_whose_spans_the_collector_rejects_count_as_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut collector = connection(listener.local_addr().expect("its address"));
    let rejecting = Rejecting::default();
    let server = tonic::transport::Server::builder().add_service(rejecting.clone());
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    // Two calls with four spans.
    let calls = [Direction::Outbound, Direction::Inbound].map(otlp::tests::call);
    let resource = otlp::resource(None, None, Vec::new());

    for (rejected_spans, exported, dropped) in
        [(0, 2, 0), (-1, 2, 0), (1, 1, 1), (2, 1, 1), (3, 0, 2), (4, 0, 2), (i64::MAX, 0, 2)]
    {
        rejecting.0.store(rejected_spans, Ordering::Relaxed);
        let outbox = Outbox::default();
        collector.export(&calls, &resource, &outbox).await;
        let counted = (outbox.exported(), outbox.dropped(Dropped::Collector));
        assert_eq!(counted, (exported, dropped), "{rejected_spans} of 4 spans are rejected");
    }
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
                    "fails" => collector.note_failure("connection refused"),
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
