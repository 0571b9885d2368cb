//! One engine receives a message, a second engine sends the message on, and a third engine must read the same message.

use leno_http1::limits::MAX_FIELDS;
use leno_http1::{FieldSection, Limits, Role, Section};

use crate::side::{Seen, Side, join};

/// Splits the bytes into parts of `choice` bytes. If `choice` is 0, returns all bytes as one part.
fn parts(choice: u8, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(if choice == 0 { usize::MAX } else { usize::from(choice) })
}

/// Reads the bytes as requests. Sends each request on, and answers it once it is complete.
pub fn requests(choice: u8, bytes: &[u8]) {
    let mut front = Side::new(Role::Server, Limits::server());
    let mut relayed = None;
    for part in parts(choice, bytes) {
        let mut part = part;
        loop {
            let mut fields = FieldSection::new();
            match front.next(std::mem::take(&mut part), &mut fields) {
                Some(seen) => relay_request(&mut front, &mut relayed, &fields, seen),
                None => break,
            }
        }
    }
}

/// The engine that sends a request on (`back`), and the engine that reads this request (`far`).
struct Onward {
    back: Side,
    far: Side,
    sent: Vec<Seen>,
}

fn relay_request(front: &mut Side, relayed: &mut Option<Onward>, fields: &FieldSection, seen: Seen) {
    let is_request = matches!(seen, Seen::Headers(Section::Request, ..));
    if is_request {
        let (back, far) = (Side::new(Role::Client, larger()), Side::new(Role::Server, larger()));
        *relayed = Some(Onward { back, far, sent: Vec::new() });
    }
    let Some(onward) = relayed else { return };
    match &seen {
        Seen::Headers(Section::Request, _, end) => {
            // As in a proxy, both engines use the same memory for header sections. So swap this memory into the second
            // engine for this call.
            std::mem::swap(&mut front.heads, &mut onward.back.heads);
            onward.back.open(fields, *end);
            std::mem::swap(&mut front.heads, &mut onward.back.heads);
        }
        Seen::Headers(_, _, _) => onward.back.send_headers(Section::Trailers, fields, true),
        Seen::Data(bytes, end) => {
            onward.back.http1.send_data(onward.back.key, bytes, *end);
            front.release(bytes.len());
        }
        Seen::Reset => panic!("bytes reset nothing"),
    }
    join(&mut onward.sent, seen);
    let awaits_answer = is_request && front.http1.is_paused();
    if front.received_all || awaits_answer {
        compare(onward);
        *relayed = None;
        let mut answer = FieldSection::new();
        answer.push(b":status", b"200");
        front.send_headers(Section::Response, &answer, true);
    }
    front.write(usize::MAX);
}

fn compare(onward: &mut Onward) {
    let mut read = Vec::new();
    let mut fields = FieldSection::new();
    loop {
        let output = onward.back.write(1_000);
        let mut seen = onward.far.next(&output, &mut fields);
        while let Some(event) = seen {
            onward.far.release(usize::MAX);
            join(&mut read, event);
            seen = onward.far.next(b"", &mut fields);
        }
        if output.is_empty() {
            break;
        }
    }
    if onward.sent.iter().any(is_full) {
        return;
    }
    for seen in onward.sent.iter_mut().chain(&mut read) {
        normalise(seen);
    }
    assert_eq!(onward.sent, read);
}

/// Returns whether a section could exceed [`MAX_FIELDS`] when relaying adds fields: framing and hop-by-hop fields.
fn is_full(seen: &Seen) -> bool {
    matches!(seen, Seen::Headers(_, fields, _) if fields.len() > MAX_FIELDS - 4)
}

/// Removes the differences that relaying may cause. A relay joins cookie fields, removes leading zeros from a content
/// length, and adds a content length of 0.
fn normalise(seen: &mut Seen) {
    let Seen::Headers(_, fields, _) = seen else { return };
    for (_, length) in fields.iter_mut().filter(|field| field.0 == b"content-length") {
        let zeros = length.iter().take_while(|digit| **digit == b'0').count();
        length.drain(..zeros);
    }
    fields.retain(|field| *field != (b"content-length".to_vec(), Vec::new()));
    let cookies: Vec<u8> =
        fields.iter().filter(|field| field.0 == b"cookie").flat_map(|field| field.1.clone()).collect();
    let mut cookies: Vec<u8> = cookies.into_iter().filter(|byte| !b"; ".contains(byte)).collect();
    cookies.sort_unstable();
    fields.retain(|field| field.0 != b"cookie");
    fields.push((b"cookie".to_vec(), cookies));
}

/// Limits for a relayed message, which may be somewhat longer than the original.
fn larger() -> Limits {
    let max_header_list_bytes = 4 * Limits::client().max_header_list_bytes;
    Limits { max_header_list_bytes, max_target_bytes: 1 << 20, max_trailer_bytes: 1 << 20, ..Limits::client() }
}

/// Requests for which [`responses`] reads a response, each as bytes on the wire and as a field section.
const ASKED: [(&str, &[(&str, &str)]); 4] = [
    ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &[(":method", "GET"), (":path", "/")]),
    ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", &[(":method", "HEAD"), (":path", "/")]),
    ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", &[(":method", "CONNECT"), (":authority", "a:1")]),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n",
        &[(":method", "GET"), (":path", "/"), ("leno-upgrade", "foo")],
    ),
];

/// Reads all bytes, and the end of the connection, as the response to one request, and relays the response.
pub fn responses(choice: u8, bytes: &[u8]) {
    let (wire, section) = ASKED[usize::from(choice % 4)];
    let is_tunnel = choice % 4 >= 2;
    let mut asked = FieldSection::new();
    section.iter().for_each(|(name, value)| asked.push(name.as_bytes(), value.as_bytes()));
    let ask = |mut side: Side| {
        side.open(&asked, !is_tunnel);
        side.write(usize::MAX);
        side
    };
    let mut back = ask(Side::new(Role::Client, Limits::client()));
    let mut near = ask(Side::new(Role::Client, larger()));
    let mut front = Side::new(Role::Server, Limits::server());
    let mut fields = FieldSection::new();
    assert!(front.next(wire.as_bytes(), &mut fields).is_some());

    let (mut sent, mut read) = (Vec::new(), Vec::new());
    let mut answer = |seen: Seen, fields: &FieldSection, front: &mut Side| {
        match &seen {
            Seen::Headers(section, _, end) => front.send_headers(*section, fields, *end),
            Seen::Data(bytes, end) => drop(front.http1.send_data(front.key, bytes, *end)),
            Seen::Reset => front.http1.reset(front.key, leno_http1::ErrorCode::CANCEL),
        }
        join(&mut sent, seen);
    };
    for part in parts(choice / 4, bytes) {
        let mut seen = back.next(part, &mut fields);
        while let Some(event) = seen {
            answer(event, &fields, &mut front);
            back.release(usize::MAX);
            seen = back.next(b"", &mut fields);
        }
    }
    if let Some(event) = back.end() {
        answer(event, &fields, &mut front);
    }
    loop {
        let output = front.write(1_000);
        let mut seen = near.next(&output, &mut fields);
        while let Some(event) = seen {
            near.release(usize::MAX);
            join(&mut read, event);
            seen = near.next(b"", &mut fields);
        }
        if output.is_empty() {
            break;
        }
    }
    if sent.iter().any(is_full) {
        return;
    }
    assert!(!near.failed, "what was written can be read");
    if front.http1.ends_output()
        && let Some(event) = near.end()
    {
        join(&mut read, event);
    }
    if sent.contains(&Seen::Reset) || back.failed {
        return;
    }
    sent.iter_mut().chain(&mut read).for_each(normalise);
    assert_eq!(sent, read);
}
