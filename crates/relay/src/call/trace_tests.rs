use super::*;

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
