use crate::access_log::fixtures::{call, connection, workload};
use crate::access_log::{Format, Queries, Record, format_line};

fn line(record: &Record) -> String {
    let mut line = Vec::new();
    format_line(&mut line, Format::Apache, Queries::Drop, record);
    String::from_utf8(line).expect("it is ASCII")
}

#[test]
fn a_call_begins_as_the_combined_format_does() {
    let (web, carts) = (workload("web"), workload("carts"));
    assert_eq!(
        line(&call(&web, &carts)),
        "10.0.0.1 - spiffe://example.org/ns/shop/sa/web [29/Feb/2024:23:59:58 +0000] \
         \"POST /shop.Carts/Get HTTP/2\" 200 345 \"-\" \"grpc-go/1.60\" \
         \"carts.shop:80\" inbound true 10.0.0.2:8080 spiffe://example.org/ns/shop/sa/carts 0 6.789 \"7c1f\" -\n"
    );
}

#[test]
fn what_is_not_known_is_a_dash() {
    assert_eq!(
        line(&connection()),
        "::1 - - [01/Jan/1970:00:00:00 +0000] \"- - TCP\" - 0 \"-\" \"-\" \
         \"-\" outbound no_identity - - - 0.000 \"-\" connect-failed\n"
    );
}

#[test]
fn a_peer_cannot_add_fields_or_lines() {
    let attack: &[u8] = b"x\" 200 0 \"-\" \"-\"\r\n10.9.9.9 - root [01/Jan/1970:00:00:00 +0000] \"GET / HTTP/2\\";
    let attacked = Record {
        method: attack,
        authority: attack,
        path: attack,
        request_id: attack,
        user_agent: attack,
        ..connection()
    };
    let line = line(&attacked);
    assert_eq!(line.matches('\n').count(), 1);
    // The line has five quoted strings: ten quotes without a backslash before them.
    let unescaped = line.replace("\\\\", "").replace("\\\"", "");
    assert_eq!(unescaped.matches('"').count(), 10);
}
