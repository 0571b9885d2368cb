use super::*;
use crate::fixtures::{mesh_of, outbound, relay, service};
use crate::trace::{Outbox, Sampling, Tracer, Tracing};

const OWN: u128 = 0xb7ad_6b71_6920_3331;

/// Returns a request with B3 fields, in which the caller's span is `00f067aa0ba902b7`.
fn request() -> FieldSection {
    let mut request = FieldSection::new();
    for (name, value) in [
        ("x-b3-traceid", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("x-b3-spanid", "00f067aa0ba902b7"),
        ("x-b3-sampled", "1"),
    ] {
        request.push(name.as_bytes(), value.as_bytes());
    }
    request
}

/// Sends an attempt. Returns the span that the endpoint gets, and the parent of this span.
fn sent(direction: Direction, has_begun: bool) -> (String, String) {
    let (mut request, now, id) = (request(), Instant::now(), AttemptId::numbered(0));
    let context = TraceContext::of(&request).expect("a context");
    let mut call = CallTrace {
        trace: context.caller.expect("a caller").0,
        span: SpanId::of(OWN).expect("not zero"),
        is_sampled: true,
        direction,
        context,
        attempts: SmallVec::new(),
    };
    if has_begun {
        call.begin_attempt(id, (None, None, false), now, &mut fastrand::Rng::with_seed(1));
        call.attempts[0].span = SpanId::of(2).expect("not zero");
    }
    call.send(id, None, &mut request, now);
    let field = |known| String::from_utf8_lossy(request.get(known).unwrap_or_default()).into_owned();
    (field(Known::XB3SpanId), field(Known::XB3ParentSpanId))
}

#[test]
fn b3_names_the_parent_of_the_span_that_goes_on() {
    let pair = |span: &str, parent: &str| (span.to_owned(), parent.to_owned());
    let of_call = pair("b7ad6b7169203331", "00f067aa0ba902b7");
    assert_eq!(sent(Direction::Outbound, true), pair("0000000000000002", "b7ad6b7169203331"));
    assert_eq!(sent(Direction::Outbound, false), of_call, "the attempt has no span");
    assert_eq!(sent(Direction::Inbound, true), of_call);
}

/// Makes a call with these fields. Returns the `tracestate` of its exported span.
fn exported_trace_state(fields: &str) -> String {
    let mut relay = relay(1, mesh_of(service("cart", &["10.0.0.8"])), false);
    let outbox = Arc::<Outbox>::default();
    let tracing = Tracing { sampling: Sampling { ratio: 1.0, ..Sampling::default() }, outbox: outbox.clone() };
    relay.tracer = Tracer::new(Some(tracing), relay.now, &mut fastrand::Rng::with_seed(1));
    let request = format!("GET / HTTP/1.1\r\nhost: cart.shop:80\r\n{fields}\r\n");
    crate::fixtures::call(&mut relay, 0, outbound(), None, request.into_bytes());
    let (id, _) = relay.calls.iter().next().expect("a call");
    relay.end_call(id, Ending::Cancelled);
    let traced = outbox.take();
    traced.first().expect("a traced call").texts.get(Text::TraceState).to_owned()
}

#[test]
fn a_span_has_the_tracestate_of_its_traceparent() {
    let traceparent = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    let state = "tracestate: a=1\r\ntracestate: b=\"2\"\r\n";
    assert_eq!(exported_trace_state(&format!("{traceparent}{state}")), "a=1,b=\"2\"");
    assert_eq!(exported_trace_state(state), "", "a new trace");
}
