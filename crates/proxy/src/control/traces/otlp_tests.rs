use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use leno_relay::trace::{Texts, TraceId};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

use super::*;

fn span_id(number: u128) -> SpanId {
    SpanId::of(number).expect("not zero")
}

fn attempt(number: u32) -> FinishedAttempt {
    FinishedAttempt {
        span: span_id(10 + u128::from(number)),
        number,
        endpoint: Some("10.0.0.2:50051".parse().expect("an address")),
        server_id: Some(Arc::new("spiffe://cluster.local/ns/shop/sa/cart".parse().expect("an id"))),
        is_hedge: false,
        reason: None,
        began: Duration::from_millis(1),
        sent: Some(Duration::from_millis(3)),
        answered: Some(Duration::from_millis(7)),
        ended: Duration::from_millis(8),
        http_status: Some(200),
        grpc_status: Some(0),
        error: None,
        has_failed: false,
    }
}

fn texts(method: &str, path: &str) -> Texts {
    Texts::new(|text, to| {
        to.push_str(match text {
            Text::TraceState => "vendor=1",
            Text::Method => method,
            Text::Path => path,
            Text::Authority | Text::Target => "cart.shop:80",
            Text::Route => "GRPCRoute shop/canary",
        });
    })
}

/// A gRPC call whose first attempt failed.
pub(crate) fn call(direction: Direction) -> FinishedCall {
    let first =
        FinishedAttempt { http_status: None, grpc_status: None, error: Some("reset"), has_failed: true, ..attempt(1) };
    FinishedCall {
        trace: TraceId::of(0xabcd).expect("not zero"),
        span: span_id(1),
        parent: Some(span_id(7)),
        is_sampled: true,
        direction,
        started: SystemTime::UNIX_EPOCH + Duration::from_secs(5),
        duration: Duration::from_millis(9),
        is_grpc: true,
        texts: texts("POST", "/shop.v1.Cart/Get"),
        client: "10.0.0.1:40000".parse().expect("an address"),
        client_id: None,
        http_status: Some(200),
        grpc_status: Some(0),
        proxy_error: None,
        was_cancelled: false,
        has_failed: false,
        retries: 1,
        hedges: 0,
        attempts: [first, attempt(2)].into_iter().collect(),
    }
}

/// The value of an attribute as text; empty without the attribute.
fn value(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

#[test]
fn an_outbound_call_has_a_span_and_one_below_it_for_each_attempt() {
    let spans = spans(&call(Direction::Outbound));
    let kinds: Vec<_> = spans.iter().map(Span::kind).collect();
    assert_eq!(kinds, [SpanKind::Internal, SpanKind::Client, SpanKind::Client]);
    let parents: Vec<_> = spans.iter().map(|span| span.parent_span_id.clone()).collect();
    assert_eq!(parents, [bytes(span_id(7)), bytes(span_id(1)), bytes(span_id(1))]);
    assert!(spans.iter().all(|span| span.name == "shop.v1.Cart/Get" && span.trace_id.len() == 16));
    let [call, first, second] = &spans[..] else { panic!("three spans") };
    assert_eq!((value(call, "leno.retries"), value(call, "leno.target")), ("1".to_owned(), "cart.shop:80".to_owned()));
    assert_eq!(value(first, "error.type"), "reset");
    assert_eq!(first.status.as_ref().map(Status::code), Some(StatusCode::Error));
    assert_eq!((value(second, "http.request.resend_count"), second.status.clone()), ("1".to_owned(), None));
    assert_eq!(
        (value(second, "leno.waited_ms"), value(second, "network.peer.port")),
        ("2".to_owned(), "50051".to_owned())
    );
}

#[test]
fn an_inbound_call_is_one_span_with_the_latest_attempt() {
    let spans = spans(&call(Direction::Inbound));
    let [span] = &spans[..] else { panic!("one span") };
    assert_eq!(span.kind(), SpanKind::Server);
    assert_eq!(value(span, "rpc.method"), "shop.v1.Cart/Get");
    assert_eq!(value(span, "rpc.response.status_code"), "OK");
    assert_eq!(value(span, "leno.attempt"), "2");
}

#[test]
fn times_are_of_the_wall_clock() {
    let spans = spans(&call(Direction::Outbound));
    let times: Vec<_> = spans.iter().map(|span| (span.start_time_unix_nano, span.end_time_unix_nano)).collect();
    assert_eq!(times[..2], [(5_000_000_000, 5_009_000_000), (5_001_000_000, 5_008_000_000)]);
    assert_eq!(
        spans[1].events.iter().map(|event| event.time_unix_nano).collect::<Vec<_>>(),
        [5_003_000_000, 5_007_000_000]
    );
}

#[test]
fn a_failed_call_says_why() {
    let failed = FinishedCall {
        grpc_status: Some(14),
        has_failed: true,
        attempts: Default::default(),
        ..call(Direction::Inbound)
    };
    assert_eq!(value(&spans(&failed)[0], "error.type"), "UNAVAILABLE");
    let denied = FinishedCall { proxy_error: Some("denied"), ..failed };
    assert_eq!(value(&spans(&denied)[0], "error.type"), "denied");
}

#[test]
fn other_http_has_the_method_as_its_name() {
    let get = FinishedCall { is_grpc: false, texts: texts("GET", "/items/7"), ..call(Direction::Inbound) };
    let span = &spans(&get)[0];
    assert_eq!((span.name.as_str(), value(span, "url.path")), ("GET", "/items/7".to_owned()));
}

#[test]
fn a_client_cannot_choose_the_name_of_an_http_span() {
    for method in ["PROPFIND", "get", "x-01f3"] {
        let other = FinishedCall { is_grpc: false, texts: texts(method, "/items/7"), ..call(Direction::Outbound) };
        for span in spans(&other) {
            let methods = ["http.request.method", "http.request.method_original"].map(|name| value(&span, name));
            assert_eq!((span.name.as_str(), methods), ("HTTP", ["_OTHER".to_owned(), method.to_owned()]));
        }
    }
    let get = FinishedCall { is_grpc: false, texts: texts("GET", "/items/7"), ..call(Direction::Outbound) };
    for span in spans(&get) {
        assert_eq!(value(&span, "http.request.method"), "GET");
        assert_eq!(value(&span, "http.request.method_original"), "");
    }
}

#[test]
fn every_span_names_the_server() {
    for direction in [Direction::Outbound, Direction::Inbound] {
        for span in spans(&call(direction)) {
            let server = ["server.address", "server.port"].map(|name| value(&span, name));
            assert_eq!(server, ["cart.shop", "80"], "{:?}", span.kind());
        }
    }
}

#[test]
fn an_authority_is_a_host_and_a_port() {
    for (authority, expected) in [
        ("cart.shop:80", ("cart.shop", Some(80))),
        ("cart.shop", ("cart.shop", None)),
        ("cart.shop:", ("cart.shop", None)),
        ("cart.shop:65536", ("cart.shop", None)),
        ("10.0.0.2:50051", ("10.0.0.2", Some(50_051))),
        ("[fd00::2]:50051", ("fd00::2", Some(50_051))),
        ("[fd00::2]", ("fd00::2", None)),
        ("", ("", None)),
    ] {
        assert_eq!(host_and_port(authority), expected, "{authority}");
    }
}

#[test]
fn the_encoding_is_that_of_a_whole_request() {
    let calls = [call(Direction::Outbound), call(Direction::Inbound)];
    let resource = resource(Some("web".to_owned()), None, Vec::new());
    let (encoded, count) = resource_spans(&calls, &resource);
    let encoded = Bytes::from(encoded).encode_to_vec();
    let request = ExportTraceServiceRequest::decode(encoded.as_slice()).expect("a request");
    let [of_resource] = request.resource_spans.as_slice() else { panic!("{request:?}") };
    assert_eq!(of_resource.resource.as_ref(), Some(&resource));
    let [of_scope] = of_resource.scope_spans.as_slice() else { panic!("{of_resource:?}") };
    assert_eq!(of_scope.scope.as_ref().map(|scope| scope.name.as_str()), Some("leno-proxy"));
    assert_eq!(of_scope.spans, calls.iter().flat_map(spans).collect::<Vec<_>>());
    assert_eq!(of_scope.spans.len(), count);
    assert_eq!(request.encode_to_vec(), encoded, "as the library encodes it");
}

#[test]
fn the_service_is_named_by_its_identity() {
    let own: Workload = "ns/shop/sa/cart".parse().expect("a workload");
    let named = |resource: Resource| {
        let text = |attribute: KeyValue| match attribute.value.and_then(|value| value.value) {
            Some(Value::StringValue(text)) => format!("{}={text}", attribute.key),
            other => panic!("{other:?} is no text"),
        };
        resource.attributes.into_iter().map(text).collect::<Vec<_>>()
    };
    let pod = ("k8s.pod.name".to_owned(), "cart-0".to_owned());
    assert_eq!(
        named(resource(None, Some(&own), vec![pod])),
        ["service.name=cart", "service.namespace=shop", "k8s.pod.name=cart-0"]
    );
    assert_eq!(named(resource(Some("web".to_owned()), None, Vec::new())), ["service.name=web"]);
    assert_eq!(named(resource(None, None, Vec::new())), ["service.name=leno-proxy"]);
}
