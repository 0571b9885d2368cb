//! The cost of HPACK in a proxy: decodes and encodes the sections of typical gRPC calls, and prints ns per section.
//!
//! `cargo run --release -p leno-http2 --example hpack_cost`

use std::hint::black_box;
use std::time::Instant;

use leno_http2::fields::FieldSection;
use leno_http2::hpack::{DEFAULT_TABLE_SIZE, Decoder, Encoder};

const ROUNDS: u32 = 5_000_000;
const MAX_LIST_SIZE: usize = 16_384;

const REQUEST: &[(&str, &str)] = &[
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/echo.v1.Echo/Unary"),
    (":authority", "echo.default:50051"),
    ("content-type", "application/grpc"),
    ("user-agent", "grpc-go/1.75.0"),
    ("te", "trailers"),
    ("grpc-accept-encoding", "gzip"),
];
const RESPONSE: &[(&str, &str)] = &[(":status", "200"), ("content-type", "application/grpc")];
const DATE: (&str, &str) = ("date", "Tue, 25 Nov 2025 22:06:07 GMT");
const TRAILERS: &[(&str, &str)] = &[("grpc-status", "0"), ("grpc-message", "")];

/// Number of different values of one field: so large that an encoder has forgotten a value when the value occurs again.
const VALUES: u64 = 5_000;

fn main() {
    measure("request, 8 fields", &[section(REQUEST, None)]);
    measure("request with a time-out, 9 fields", &requests("grpc-timeout", |value| format!("{}u", 990_000 + value)));
    let trace = |value: u64| {
        let id = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("00-{id:016x}{:016x}-{:016x}-01", id.swap_bytes(), id.rotate_left(20))
    };
    measure("request with a trace, 9 fields", &requests("traceparent", trace));
    measure("response, 2 fields", &[section(RESPONSE, None)]);
    measure("response with a date, 3 fields", &[section(RESPONSE, Some(DATE))]);
    measure("trailers, 2 fields", &[section(TRAILERS, None)]);
}

fn section(fields: &[(&str, &str)], more: Option<(&str, &str)>) -> FieldSection {
    let mut section = FieldSection::new();
    for (name, value) in fields.iter().copied().chain(more) {
        section.push(name.as_bytes(), value.as_bytes());
    }
    section
}

fn requests(name: &str, value: impl Fn(u64) -> String) -> Vec<FieldSection> {
    (0..VALUES).map(|number| section(REQUEST, Some((name, &value(number))))).collect()
}

/// Relays [`ROUNDS`] sections, one after the other, between two connections whose tables contain the repeated fields.
fn measure(what: &str, sections: &[FieldSection]) {
    let mut client = Encoder::new();
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let mut encoder = Encoder::new();
    let mut relayed = Vec::new();
    let mut relay = |block: &[u8], section: &mut FieldSection| {
        section.clear();
        decoder.decode(block, MAX_LIST_SIZE, section).expect("our own encoder's block is valid");
        relayed.clear();
        encoder.encode(section, &mut relayed);
        black_box(&relayed);
    };
    // After three passes, the client's encoder inserts no more fields, so the decoder can decode the same blocks any
    // number of times.
    let mut decoded = FieldSection::new();
    let mut blocks = Vec::new();
    for _ in 0..3 {
        blocks.clear();
        for section in sections {
            let mut block = Vec::new();
            client.encode(section, &mut block);
            relay(&block, &mut decoded);
            blocks.push(block);
        }
    }
    let started = Instant::now();
    for block in blocks.iter().cycle().take(ROUNDS as usize) {
        relay(black_box(block), &mut decoded);
    }
    let ns = started.elapsed().as_nanos() / u128::from(ROUNDS);
    let bytes = blocks.iter().map(Vec::len).sum::<usize>() / blocks.len();
    println!("{what}: {ns} ns to decode and encode, {bytes} bytes in");
}
