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
const TIMEOUT: &[(&str, &str)] = &[("grpc-timeout", "999874u")];
const RESPONSE: &[(&str, &str)] = &[(":status", "200"), ("content-type", "application/grpc")];
const TRAILERS: &[(&str, &str)] = &[("grpc-status", "0"), ("grpc-message", "")];

fn main() {
    measure("request, 8 fields", &[REQUEST]);
    measure("request with a time-out, 9 fields", &[REQUEST, TIMEOUT]);
    measure("response, 2 fields", &[RESPONSE]);
    measure("trailers, 2 fields", &[TRAILERS]);
}

/// Relays one section [`ROUNDS`] times between two connections, after their tables have learned its fields.
fn measure(what: &str, parts: &[&[(&str, &str)]]) {
    let mut section = FieldSection::new();
    for (name, value) in parts.iter().copied().flatten() {
        section.push(name.as_bytes(), value.as_bytes());
    }
    let mut client = Encoder::new();
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let mut encoder = Encoder::new();
    let mut block = Vec::new();
    let mut relayed = Vec::new();
    let mut relay = |block: &[u8], section: &mut FieldSection| {
        section.clear();
        decoder.decode(block, MAX_LIST_SIZE, section).expect("our own encoder's block is valid");
        relayed.clear();
        encoder.encode(section, &mut relayed);
        black_box(&relayed);
    };
    // After two passes, every field that may enter a table is in it.
    let mut decoded = FieldSection::new();
    for _ in 0..3 {
        block.clear();
        client.encode(&section, &mut block);
        relay(&block, &mut decoded);
    }
    let started = Instant::now();
    for _ in 0..ROUNDS {
        relay(black_box(&block), &mut decoded);
    }
    let ns = started.elapsed().as_nanos() / u128::from(ROUNDS);
    println!("{what}: {ns} ns to decode and encode, {} bytes in", block.len());
}
