//! Fuzzes the gRPC fields that a peer sends and the relay reads: the relay reads each value as the protocol defines it,
//! or ignores it.
#![no_main]

use std::time::Duration;

use leno_http2::FieldSection;
use leno_relay::grpc;
use libfuzzer_sys::fuzz_target;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
const UNKNOWN: u8 = 2;

fuzz_target!(|value: &[u8]| {
    check_timeout(value);
    let mut trailers = FieldSection::new();
    trailers.push(b"grpc-status", value);
    trailers.push(b"grpc-retry-pushback-ms", value);
    let text = std::str::from_utf8(value).unwrap_or("not text");
    let status = (0..=16).find(|status| status.to_string() == text).unwrap_or(UNKNOWN);
    assert_eq!(grpc::status(&trailers), Some(status));
    if let Some(pushback) = grpc::pushback(&trailers) {
        assert_eq!(pushback.wait().map(|pause| pause.as_millis()), text.parse::<u64>().ok().map(u128::from));
    }
    check_message(text);
});

/// Checks that a timeout is 1 to 8 digits and a unit, and at most a year. After it is formatted and parsed again, the
/// timeout must not be longer, and not much shorter.
fn check_timeout(value: &[u8]) {
    let Some(timeout) = grpc::parse_timeout(value) else { return };
    let (unit, digits) = value.split_last().expect("a unit");
    let digits = std::str::from_utf8(digits).expect("digits");
    assert!((1..=8).contains(&digits.len()));
    let number: u128 = digits.parse().expect("a number");
    let nanos = match unit {
        b'H' => 3_600_000_000_000,
        b'M' => 60_000_000_000,
        b'S' => 1_000_000_000,
        b'm' => 1_000_000,
        b'u' => 1_000,
        b'n' => 1,
        _ => panic!("{unit} is no unit"),
    };
    assert_eq!(timeout.as_nanos(), (number * nanos).min(YEAR.as_nanos()));

    let written = grpc::format_timeout(timeout);
    let left = grpc::parse_timeout(written.as_bytes()).expect("what was written can be read");
    assert!(left <= timeout && timeout - left <= timeout / 90_000, "{written}");
}

/// Checks that an encoded message is printable, and decodes to the same message.
fn check_message(message: &str) {
    let encoded = grpc::encode_message(message);
    assert!(encoded.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    let mut decoded = Vec::new();
    let mut rest = encoded.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (hex, tail) = rest.split_at(2);
        rest = tail;
        let hex = std::str::from_utf8(hex).expect("two digits");
        decoded.push(u8::from_str_radix(hex, 16).expect("two digits"));
    }
    assert_eq!(decoded, message.as_bytes());
}
