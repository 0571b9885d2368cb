use super::*;

const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const CALLER: u128 = 0x00f0_67aa_0ba9_02b7;
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// The context of `TRACEPARENT` in OpenCensus' format.
const BINARY: &str = "AABL+S81d7NNpqPOkp0ODkc2AQDwZ6oLqQK3AgE";

fn request(fields: &[(&str, &str)]) -> FieldSection {
    let mut request = FieldSection::new();
    for (name, value) in fields {
        request.push(name.as_bytes(), value.as_bytes());
    }
    request
}

fn context(fields: &[(&str, &str)]) -> Option<TraceContext> {
    TraceContext::of(&request(fields))
}

fn caller(trace: u128) -> Option<(TraceId, SpanId)> {
    Some((TraceId::of(trace)?, SpanId::of(CALLER)?))
}

/// Writes the context for the next hop, with a child of the caller's span. Returns the fields.
fn passed_on(fields: &[(&str, &str)], is_sampled: bool) -> Vec<(String, String)> {
    let mut request = request(fields);
    let context = TraceContext::of(&request).unwrap_or_else(TraceContext::root);
    let trace = context.caller.map_or_else(|| TraceId::of(TRACE).expect("not zero"), |caller| caller.0);
    let span = SpanId::of(0xb7ad_6b71_6920_3331).expect("not zero");
    context.write(&mut request, (trace, span, context.caller.map(|caller| caller.1)), is_sampled);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    request.iter().map(|line| (text(line.name), text(line.value))).collect()
}

fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn every_format_gives_the_same_context() {
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let formats: [&[(&str, &str)]; 6] = [
        &[("traceparent", TRACEPARENT)],
        &[("b3", &format!("{trace}-{span}-1"))],
        &[("b3", &format!("{trace}-{span}-d-05e3ac9a4f6e3b90"))],
        &[("x-b3-traceid", trace), ("x-b3-spanid", span), ("x-b3-sampled", "1")],
        &[("x-b3-traceid", trace), ("x-b3-spanid", span), ("x-b3-flags", "1")],
        &[("grpc-trace-bin", BINARY)],
    ];
    for fields in formats {
        let context = context(fields).unwrap_or_else(|| panic!("{fields:?} is a context"));
        assert_eq!((context.caller, context.sampled), (caller(TRACE), Some(true)), "{fields:?}");
    }
}

#[test]
fn a_context_that_is_not_sampled_is_read_as_such() {
    let not_sampled = TRACEPARENT.replace("-01", "-00");
    assert_eq!(context(&[("traceparent", &not_sampled)]).and_then(|context| context.sampled), Some(false));
    for fields in [&[("b3", "0")], &[("x-b3-sampled", "0")], &[("x-b3-sampled", "false")]] {
        let context = context(fields).unwrap_or_else(|| panic!("{fields:?} is a decision"));
        assert_eq!((context.caller, context.sampled), (None, Some(false)), "{fields:?}");
    }
}

#[test]
fn b3_may_leave_the_decision_to_others() {
    let context = context(&[("b3", "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1")]).expect("a context");
    assert_eq!(context.sampled, None);
}

#[test]
fn malformed_fields_count_as_absent() {
    let no_contexts = [
        ("traceparent", ""),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"),
        ("traceparent", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"),
        ("traceparent", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01"),
        ("b3", ""),
        ("b3", "2"),
        ("b3", "4bf92f3577b34da6a3ce929d0e0e4736-"),
        ("b3", "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-x"),
        ("x-b3-traceid", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("x-b3-sampled", "perhaps"),
        ("grpc-trace-bin", ""),
        ("grpc-trace-bin", "AABL+S81d7NNpqPOkp0ODkc2AQDwZ6oLqQK3"),
        ("grpc-trace-bin", "AQBL+S81d7NNpqPOkp0ODkc2AQDwZ6oLqQK3AgE"),
        ("grpc-trace-bin", "not base64 at all"),
    ];
    for (name, value) in no_contexts {
        assert_eq!(context(&[(name, value)]), None, "{name}: {value}");
    }
}

#[test]
fn a_later_version_of_traceparent_may_have_further_parts() {
    let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings";
    assert_eq!(context(&[("traceparent", later)]).and_then(|context| context.caller), caller(TRACE));
}

#[test]
fn a_root_is_written_as_traceparent() {
    let written = passed_on(&[("x-request-id", "1")], true);
    assert_eq!(
        written,
        owned(&[("x-request-id", "1"), ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01")])
    );
}

#[test]
fn a_context_goes_on_in_its_own_format() {
    type Fields<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Fields<'_>, Fields<'_>); 5] = [
        (
            // The flag for random trace ids is passed on; unknown flags are not.
            &[("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff"), ("tracestate", "a=1")],
            &[("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-03"), ("tracestate", "a=1")],
        ),
        (&[("b3", "a3ce929d0e0e4736-00f067aa0ba902b7-1")], &[("b3", "a3ce929d0e0e4736-b7ad6b7169203331-1")]),
        (&[("b3", "a3ce929d0e0e4736-00f067aa0ba902b7-d")], &[("b3", "a3ce929d0e0e4736-b7ad6b7169203331-d")]),
        (
            &[("x-b3-traceid", "a3ce929d0e0e4736"), ("x-b3-spanid", "00f067aa0ba902b7"), ("x-b3-flags", "1")],
            &[
                ("x-b3-traceid", "a3ce929d0e0e4736"),
                ("x-b3-spanid", "b7ad6b7169203331"),
                ("x-b3-flags", "1"),
                ("x-b3-parentspanid", "00f067aa0ba902b7"),
            ],
        ),
        (&[("grpc-trace-bin", BINARY)], &[("grpc-trace-bin", "AABL+S81d7NNpqPOkp0ODkc2Abeta3FpIDMxAgE")]),
    ];
    for (received, sent) in cases {
        assert_eq!(passed_on(received, true), owned(sent));
    }
}

#[test]
fn formats_that_agree_all_go_on() {
    let sent = passed_on(&[("traceparent", TRACEPARENT), ("grpc-trace-bin", BINARY)], true);
    let contexts: Vec<_> = sent
        .iter()
        .map(|(name, value)| context(&[(name, value)]).and_then(|context| context.caller).map(|caller| caller.1))
        .collect();
    assert_eq!(contexts, [SpanId::of(0xb7ad_6b71_6920_3331); 2]);
}

#[test]
fn a_format_of_another_trace_stays_as_it_is() {
    let other = "a3ce929d0e0e4736-00f067aa0ba902b7-1";
    let sent = passed_on(&[("traceparent", TRACEPARENT), ("b3", other)], true);
    assert!(sent.contains(&("b3".to_owned(), other.to_owned())), "{sent:?}");
}

#[test]
fn only_a_valid_traceparent_has_a_tracestate() {
    let valid_b3 = ("b3", "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1");
    let invalid = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01");
    let cases: [(&[(&str, &str)], bool); 5] = [
        (&[("tracestate", "a=1"), ("tracestate", "b=2")], false),
        (&[invalid, ("tracestate", "a=1")], false),
        (&[valid_b3, ("tracestate", "a=1")], false),
        (&[("b3", "1"), ("tracestate", "a=1")], false),
        (&[("traceparent", TRACEPARENT), ("tracestate", "a=1")], true),
    ];
    for (fields, goes_on) in cases {
        let sent = passed_on(fields, true);
        assert_eq!(sent.iter().any(|(name, _)| name == "tracestate"), goes_on, "{fields:?} became {sent:?}");
    }
}
