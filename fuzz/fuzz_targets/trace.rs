//! Fuzzes the contexts of traces. The relay writes a context for the next hop, and must read the same trace from it.
#![no_main]

use leno_http2::FieldSection;
use leno_relay::trace::{SpanId, TraceContext};
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 7] =
    ["traceparent", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-sampled", "x-b3-flags", "grpc-trace-bin"];

fuzz_target!(|input: (Vec<(u8, Vec<u8>)>, bool)| {
    let (fields, is_sampled) = input;
    let mut request = FieldSection::new();
    for (name, value) in fields {
        let name = NAMES[usize::from(name) % NAMES.len()];
        request.push(name.as_bytes(), &value);
    }
    let Some(context) = TraceContext::of(&request) else { return };
    let Some((trace, _)) = context.caller else { return };
    let span = SpanId::of(1).expect("one is not zero");
    context.write(&mut request, (trace, span, None), is_sampled);
    let read = TraceContext::of(&request).expect("the context was written");
    assert_eq!(read.caller, Some((trace, span)));
});
