use super::*;

fn call(json: &str) -> Call {
    match Event::parse(json) {
        Some(Event::Call(call)) => call,
        other => panic!("{other:?}"),
    }
}

const OUTBOUND: &str = r#"{"time":"2026-11-26T17:00:01.002Z","direction":"outbound","client":"127.0.0.1:4000",
    "server":"10.0.0.2:50051","server_id":"spiffe://cluster.local/ns/shop/sa/cart","tls":"true","protocol":"HTTP/2",
    "method":"POST","authority":"cart.shop:80","path":"/shop.v1.Cart/Add","route":"GRPCRoute/shop/canary","status":200,
    "grpc_status":14,"request_bytes":12,"response_bytes":0,"duration_ms":12.345,"retries":2}"#;

#[test]
fn a_call_is_one_line_with_the_other_side_the_status_and_the_time() {
    assert_eq!(
        call(OUTBOUND).text("web"),
        "17:00:01.002 out web  shop.v1.Cart/Add  to shop/cart (10.0.0.2:50051)  UNAVAILABLE  12.3 ms  retries 2  \
         route GRPCRoute/shop/canary\n"
    );
}

#[test]
fn calls_without_an_identity_or_an_answer_say_so() {
    let text = |json: &str| call(json).text("web");
    assert_eq!(
        text(
            r#"{"time":"2026-11-26T17:00:01.002Z","direction":"inbound","client":"10.0.0.9:4000","method":"GET","path":"/items","status":404,"duration_ms":1}"#
        ),
        "17:00:01.002 in  web  GET /items  from 10.0.0.9:4000  404  1.0 ms\n"
    );
    assert_eq!(
        text(
            r#"{"time":"2026-11-26T17:00:01.002Z","direction":"outbound","client":"127.0.0.1:1","protocol":"TCP","duration_ms":1,"proxy_error":"no-endpoint"}"#
        ),
        "17:00:01.002 out web  TCP  to nowhere  no answer  1.0 ms  proxy error no-endpoint\n"
    );
}

#[test]
fn header_fields_follow_in_their_order() {
    let json = r#"{"time":"x","direction":"outbound","method":"GET","path":"/","status":200,"duration_ms":1,
        "request_headers":[[":method","GET"],["authorization","(blanked)"]],"response_headers":[[":status","200"]]}"#;
    let text = call(json).text("web");
    let fields: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(fields, ["    > :method: GET", "    > authorization: (blanked)", "    < :status: 200"]);
}

#[test]
fn text_from_peers_cannot_control_the_terminal() {
    let json =
        r#"{"time":"x","direction":"outbound","method":"GET","path":"/\u001b[2J\n/next","status":200,"duration_ms":1}"#;
    let text = call(json).text("web");
    assert_eq!(text.lines().count(), 1);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn json_keeps_all_fields_and_has_the_workload() {
    let json: Value = serde_json::from_str(&call(OUTBOUND).json("web", Some("web-1"))).expect("JSON");
    assert_eq!((&json["workload"], &json["pod"]), (&Value::from("web"), &Value::from("web-1")));
    assert_eq!(json["retries"], 2);
}

#[test]
fn json_has_only_printable_ascii() {
    let json = r#"{"path":"/\u202e\u009b\u00fc","direction":"outbound"}"#;
    let text = call(json).json("web", None);
    assert!(text.trim_end().bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
    let read: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(read["path"], "/\u{202e}\u{9b}\u{fc}");
    assert!(read.get("pod").is_none(), "{read}");
}

#[test]
fn dropped_calls_are_counted_and_other_lines_are_skipped() {
    assert_eq!(Event::parse(r#"{"dropped":7}"#), Some(Event::Dropped(7)));
    for other in ["", "7", "[]", "nonsense"] {
        assert_eq!(Event::parse(other), None);
    }
}
