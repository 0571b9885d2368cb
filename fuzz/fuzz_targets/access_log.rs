//! Fuzzes the access log. A peer chooses most of the log's content. Each record must be one line of printable ASCII. A
//! short value must be the same after it is read back from JSON. In Apache's format, the quotes must pair up.
#![no_main]

use std::time::{Duration, SystemTime};

use leno_relay::access_log::{Format, Protocol, Queries, Record, format_line};
use leno_relay::audit::AuditedParts;
use leno_relay::metrics::Direction;
use libfuzzer_sys::fuzz_target;

/// The smallest length limit of any field: the log never truncates a value up to this length.
const WHOLE_MAX_BYTES: usize = 32;

fn line(format: Format, record: &Record) -> String {
    let mut line = Vec::new();
    format_line(&mut line, format, Queries::Keep, record);
    let text = line.strip_suffix(b"\n").expect("a line ends");
    assert!(text.len() < 16_384 && text.iter().all(|b| (b' '..=b'~').contains(b)), "{}", text.escape_ascii());
    String::from_utf8(text.to_vec()).expect("it is ASCII")
}

fuzz_target!(|sent: &[u8]| {
    let mut fields = sent.split(|&b| b == 0xfe);
    let mut next = || fields.next().unwrap_or_default();
    let record = Record {
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(sent.len() as u64),
        direction: Direction::Inbound,
        client: ([127, 0, 0, 1], 4_000).into(),
        client_id: None,
        server: None,
        server_id: None,
        tls: Some("no_identity"),
        protocol: Protocol::Http11,
        method: next(),
        authority: next(),
        path: next(),
        status: Some(200),
        grpc_status: None,
        request_bytes: 0,
        response_bytes: 0,
        duration: Duration::ZERO,
        retries: sent.len() as u8,
        hedges: sent.len() as u8,
        audited: AuditedParts::default(),
        request_id: next(),
        trace_id: None,
        user_agent: next(),
        proxy_error: None,
        route: None,
    };

    let object: serde_json::Value = serde_json::from_str(&line(Format::Json, &record)).expect("it is JSON");
    let fields = [
        ("method", record.method),
        ("authority", record.authority),
        ("path", record.path),
        ("request_id", record.request_id),
        ("user_agent", record.user_agent),
    ];
    for (name, sent) in fields {
        let written = object.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        if sent.len() <= WHOLE_MAX_BYTES {
            assert_eq!(written, String::from_utf8_lossy(sent));
        }
    }
    assert_eq!(object.get("client").and_then(serde_json::Value::as_str), Some("127.0.0.1:4000"));

    let text = line(Format::Apache, &record);
    let bare = text.replace("\\\\", "").replace("\\\"", "");
    assert_eq!(bare.matches('"').count(), 10, "{text}");
});
