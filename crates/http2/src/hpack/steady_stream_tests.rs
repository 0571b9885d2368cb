//! Bytes on the wire for a steady stream of unary calls. The limits in these tests are the bytes that a peer's own
//! encoder would send without a proxy. Such an encoder inserts every field, as the encoders of Go, Java and C++ do.
//!
//! RFC 7541 gives the costs: an indexed field takes one byte, or two bytes if 65 entries are newer (section 6.1). A
//! literal takes two bytes for the index of its name (section 6.2), one byte for the value's length, and the bytes of
//! the value. The Huffman codes of hexadecimal digits have 5 or 6 bits, 5.6 on average (Appendix B).

use super::testing::{decode, pairs_of, section};
use super::{DEFAULT_TABLE_SIZE, Decoder, Encoder};

/// Number of messages after which all repeated fields are in the table.
const LEARNING: usize = 4;
const MESSAGES: usize = 1000;

/// Bytes per message by which the average may exceed the computed limit. Now and then two messages have the same
/// `grpc-timeout`, so that the encoder inserts this field into its table. Other fields then get indexes of two bytes,
/// or the table evicts them.
const INSERTIONS: f64 = 1.0;

const REQUEST: [(&str, &str); 8] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/echo.v1.Echo/Unary"),
    (":authority", "echo.default:50051"),
    ("content-type", "application/grpc"),
    ("user-agent", "grpc-go/1.75.0"),
    ("te", "trailers"),
    ("grpc-accept-encoding", "gzip"),
];
const DATE: &str = "Tue, 25 Nov 2025 22:06:07 GMT";

fn hexadecimal(random: &mut fastrand::Rng, digits: usize) -> String {
    (0..digits).map(|_| char::from(*random.choice(b"0123456789abcdef").expect("digits"))).collect()
}

/// Returns the `grpc-timeout` that a Go client sends for a deadline of one second: the time that is left, in
/// microseconds.
fn timeout(random: &mut fastrand::Rng) -> String {
    format!("{}u", 999_000 + random.u32(..999))
}

fn traceparent(random: &mut fastrand::Rng) -> String {
    format!("00-{}-{}-01", hexadecimal(random, 32), hexadecimal(random, 16))
}

/// The length of each message's field block, after a few messages. A decoder checks each block.
fn block_lengths(mut message: impl FnMut(&mut fastrand::Rng) -> Vec<Vec<(&'static str, String)>>) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(DEFAULT_TABLE_SIZE));
    let mut length_of = |fields: Vec<(&'static str, String)>| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (sent, mut block) = (section(&fields), Vec::new());
        encoder.encode(&sent, &mut block);
        let received = decode(&mut decoder, &block).expect("our own block is valid");
        assert_eq!(pairs_of(&received), pairs_of(&sent));
        block.len()
    };
    let lengths = (0..MESSAGES).map(|_| message(&mut random).into_iter().map(&mut length_of).sum());
    lengths.skip(LEARNING).collect()
}

fn owned(fields: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

fn request_with(more: Vec<(&'static str, String)>) -> Vec<Vec<(&'static str, String)>> {
    vec![owned(&REQUEST).into_iter().chain(more).collect()]
}

fn average(lengths: &[usize]) -> f64 {
    lengths.iter().sum::<usize>() as f64 / lengths.len() as f64
}

#[test]
fn each_response_costs_one_byte_per_field() {
    let headers = [(":status", "200"), ("content-type", "application/grpc"), ("date", DATE)];
    let nginx = [headers[0], ("server", "nginx/1.29.3"), headers[2], headers[1]];
    let ok = [("grpc-status", "0")];
    let ok_of_go = [("grpc-status", "0"), ("grpc-message", "")];
    for (server, headers, trailers) in [
        ("tonic", &headers[..], &ok[..]),
        ("grpc-go", &headers[..2], &ok_of_go),
        ("grpc-go behind net/http", &headers, &ok_of_go),
        ("nginx", &nginx, &ok),
    ] {
        let lengths = block_lengths(|_| vec![owned(headers), owned(trailers)]);
        assert!(lengths.iter().all(|&length| length == headers.len() + trailers.len()), "{server}: {lengths:?}");
    }
}

/// Each server sends different values. With 300 servers, the hashes of two fields collide for some of them.
#[test]
fn each_response_costs_one_byte_per_field_whatever_its_values_are() {
    for server in 0..300 {
        let values = [("server", format!("server-{server}")), ("x-pod", format!("echo-{server:x}"))];
        let more = [("x-version", format!("1.{server}")), ("etag", format!("\"{server:08x}\""))];
        let headers =
            [owned(&[(":status", "200"), ("content-type", "application/grpc"), ("date", DATE)]), values.into()];
        let headers: Vec<_> = headers.into_iter().flatten().chain(more).collect();
        let lengths = block_lengths(|_| vec![headers.clone(), owned(&[("grpc-status", "0"), ("grpc-message", "")])]);
        assert_eq!(lengths.last(), Some(&(headers.len() + 2)), "{headers:?}");
    }
}

#[test]
fn each_request_costs_one_byte_per_field() {
    let lengths = block_lengths(|_| request_with(vec![("grpc-timeout", "1S".to_owned())]));
    assert!(lengths.iter().all(|&length| length == REQUEST.len() + 1), "{lengths:?}");
}

#[test]
fn timeout_that_differs_in_each_request_costs_its_value_and_three_bytes() {
    let lengths = block_lengths(|random| request_with(vec![("grpc-timeout", timeout(random))]));
    let average = average(&lengths);
    assert!(average <= (REQUEST.len() + 3 + 7) as f64 + INSERTIONS, "{average}");
}

#[test]
fn trace_that_differs_in_each_request_costs_its_coded_value_and_three_bytes() {
    let lengths = block_lengths(|random| request_with(vec![("traceparent", traceparent(random))]));
    // 48 hexadecimal digits of 5.6 bits, four of 5 bits and three dashes of 6 bits: 308 bits, or 39 bytes. The last 4
    // bytes of the limit allow for random digits with longer codes.
    assert!(lengths.iter().all(|&length| length <= REQUEST.len() + 3 + 39 + 4), "{lengths:?}");
    assert!(average(&lengths) <= (REQUEST.len() + 3 + 39) as f64 + 0.5, "{}", average(&lengths));
}

#[test]
fn three_fields_that_differ_in_each_request_leave_the_others_at_one_byte() {
    let lengths = block_lengths(|random| {
        let (timeout, traceparent, id) = (timeout(random), traceparent(random), hexadecimal(random, 32));
        request_with(vec![("grpc-timeout", timeout), ("traceparent", traceparent), ("x-request-id", id)])
    });
    let average = average(&lengths);
    // The id has 32 digits of 5.6 bits: 23 bytes.
    assert!(average <= (REQUEST.len() + 3 + 7 + 3 + 39 + 3 + 23) as f64 + INSERTIONS, "{average}");
}
