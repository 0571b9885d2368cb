//! Fuzzes the counting of gRPC messages. The count must not depend on how the stream is divided, and must include every
//! message exactly once.
#![no_main]

use leno_relay::Messages;
use libfuzzer_sys::fuzz_target;

/// Counts the messages by gRPC's definition. A message is a prefix of five bytes, and then as many bytes as the prefix
/// states.
fn messages_in(mut stream: &[u8]) -> u32 {
    let mut count = 0;
    while let Some((&[_, ref length @ ..], rest)) = stream.split_first_chunk::<5>() {
        count += 1;
        stream = rest.get(u32::from_be_bytes(*length) as usize..).unwrap_or_default();
    }
    count
}

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (stream, sizes) = input;
    let (mut messages, mut counted, mut rest) = (Messages::default(), 0, &stream[..]);
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |size| usize::from(*size).clamp(1, rest.len()));
        let (piece, after) = rest.split_at(size);
        rest = after;
        if messages.read(piece) {
            counted += messages.take_new();
        }
    }
    counted += messages.take_new();
    assert_eq!((messages.begun(), counted), (messages_in(&stream), messages_in(&stream)));
});
