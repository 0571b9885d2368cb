//! Fuzzes frames: frame headers survive a round trip, settings stay in their ranges, and the result does not depend on
//! how the input is split.
#![no_main]

use std::sync::Arc;
use std::time::Instant;

use leno_http2::frame::{FrameHeader, HEADER_BYTES, MAX_31_BITS, PREFACE};
use leno_http2::{Connection, ConnectionError, Event, FieldSection, Limits, Role};
use libfuzzer_sys::fuzz_target;

const EMPTY_SETTINGS: [u8; HEADER_BYTES] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

// The first byte selects the role that reads the other bytes, and the size of the chunks. It also decides whether a
// valid preface and SETTINGS of the peer precede the other bytes.
fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    if let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
        round_trip(header);
    }
    let role = if choice & 1 == 0 { Role::Server } else { Role::Client };
    let greeting = match (choice & 2 == 0, role) {
        (false, _) => Vec::new(),
        (true, Role::Server) => [&PREFACE[..], &EMPTY_SETTINGS].concat(),
        (true, Role::Client) => EMPTY_SETTINGS.to_vec(),
    };
    let input = [&greeting, bytes].concat();
    let whole = read(role, &input, usize::MAX);
    for chunk_bytes in [1, 1 + usize::from(choice >> 2)] {
        assert_eq!(read(role, &input, chunk_bytes), whole);
    }
});

fn round_trip(bytes: &[u8; HEADER_BYTES]) {
    let header = FrameHeader::parse(bytes);
    let mut without_reserved_bit = *bytes;
    without_reserved_bit[5] &= 0x7f;
    assert_eq!(header.encode(), without_reserved_bit);
}

/// The result of one connection's input: the events, the error, and the output.
#[derive(Debug, PartialEq)]
struct Outcome {
    happened: Vec<String>,
    error: Option<ConnectionError>,
    output: Vec<u8>,
}

fn read(role: Role, input: &[u8], chunk_bytes: usize) -> Outcome {
    let now = Instant::now();
    let mut connection = Connection::new(role, Arc::new(Limits::server()), now);
    if role == Role::Client {
        let mut request = FieldSection::new();
        for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", "/")] {
            request.push(name.as_bytes(), value.as_bytes());
        }
        for token in 0..3 {
            connection.open(now, token, &request, false).expect("the connection is new");
        }
    }
    let mut outcome = Outcome { happened: Vec::new(), error: None, output: Vec::new() };
    let mut fields = FieldSection::new();
    let mut open_data = None;
    for chunk in input.chunks(chunk_bytes.min(input.len().max(1))) {
        let mut rest = chunk;
        loop {
            match connection.receive(now, &mut rest, &mut fields) {
                Ok(Some(event)) => note(&mut outcome.happened, &mut open_data, &event, &fields),
                Ok(None) => break,
                Err(error) => assert_eq!(outcome.error.replace(error), None, "an error is reported once"),
            }
        }
    }
    check_settings(&connection);
    outcome.output = connection.output().to_vec();
    outcome
}

/// Records an event. Adjacent DATA of a stream is recorded as one event, however the input was split.
fn note(happened: &mut Vec<String>, open_data: &mut Option<u32>, event: &Event<'_>, fields: &FieldSection) {
    match event {
        Event::Data { stream, bytes, end_stream, .. } => {
            if *open_data != Some(stream.id) {
                happened.push(format!("data {}: ", stream.id));
            }
            if let Some(last) = happened.last_mut() {
                last.push_str(&bytes.escape_ascii().to_string());
                last.push_str(if *end_stream { " end" } else { "" });
            }
            *open_data = Some(stream.id);
        }
        Event::Headers { .. } => {
            happened.push(format!("{event:?} {fields:?}"));
            *open_data = None;
        }
        _ => {
            happened.push(format!("{event:?}"));
            *open_data = None;
        }
    }
}

fn check_settings(connection: &Connection) {
    let settings = connection.peer_settings();
    if settings.initial_window_bytes > MAX_31_BITS || !(16_384..1 << 24).contains(&settings.max_frame_bytes) {
        unreachable!("settings out of their range: {settings:?}");
    }
}
