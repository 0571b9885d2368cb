use leno_model::route::{RouteKind, RouteName};
use serde_json::{Value, json};

use crate::access_log::fixtures::{call, connection, workload};
use crate::access_log::{Format, Queries, Record, format_line};

fn line(queries: Queries, record: &Record) -> String {
    let mut line = Vec::new();
    format_line(&mut line, Format::Json, queries, record);
    String::from_utf8(line).expect("it is ASCII")
}

fn parsed(record: &Record) -> Value {
    serde_json::from_str(&line(Queries::Drop, record)).expect("it is JSON")
}

#[test]
fn a_call_is_one_object_on_one_line() {
    let (web, carts) = (workload("web"), workload("carts"));
    let record = call(&web, &carts);
    assert!(line(Queries::Drop, &record).ends_with("}\n"));
    assert_eq!(
        parsed(&record),
        json!({
            "time": "2024-02-29T23:59:58.007Z",
            "direction": "inbound",
            "client": "10.0.0.1:40000",
            "client_id": "spiffe://example.org/ns/shop/sa/web",
            "server": "10.0.0.2:8080",
            "server_id": "spiffe://example.org/ns/shop/sa/carts",
            "tls": "true",
            "protocol": "HTTP/2",
            "method": "POST",
            "authority": "carts.shop:80",
            "path": "/shop.Carts/Get",
            "status": 200,
            "grpc_status": 0,
            "request_bytes": 12,
            "response_bytes": 345,
            "duration_ms": 6.789,
            "retries": 2,
            "hedges": 1,
            "audited": "stream-idle,retry",
            "request_id": "7c1f",
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
            "user_agent": "grpc-go/1.60",
        })
    );
}

#[test]
fn what_is_not_known_is_left_out() {
    assert_eq!(
        parsed(&connection()),
        json!({
            "time": "1970-01-01T00:00:00.000Z",
            "direction": "outbound",
            "client": "[::1]:40000",
            "tls": "no_identity",
            "protocol": "TCP",
            "request_bytes": 0,
            "response_bytes": 0,
            "duration_ms": 0.0,
            "proxy_error": "connect-failed",
        })
    );
}

#[test]
fn a_call_that_followed_a_route_names_it_and_its_rule() {
    let (web, carts) = (workload("web"), workload("carts"));
    let route = RouteName { kind: RouteKind::Http, namespace: "shop".into(), name: "canary".into() };
    let named = parsed(&Record { route: Some((&route, Some("split"))), ..call(&web, &carts) });
    assert_eq!((&named["route"], &named["rule"]), (&json!("HTTPRoute shop/canary"), &json!("split")));
    let unnamed = parsed(&Record { route: Some((&route, None)), ..call(&web, &carts) });
    assert_eq!((&unnamed["route"], unnamed.get("rule")), (&json!("HTTPRoute shop/canary"), None));
}

#[test]
fn queries_are_written_only_on_request() {
    let (web, carts) = (workload("web"), workload("carts"));
    let record = call(&web, &carts);
    assert!(!line(Queries::Drop, &record).contains("secret"));
    assert!(line(Queries::Keep, &record).contains(r#""path":"/shop.Carts/Get?token=secret""#));
    assert!(!line(Queries::Drop, &Record { path: b"/#token=secret", ..record }).contains("secret"));
}

#[test]
fn a_peer_cannot_add_fields_or_lines() {
    let (web, carts) = (workload("web"), workload("carts"));
    let attack: &[u8] = b"x\",\"client_id\":\"spiffe://example.org/ns/kube-system/sa/root\"}\n{\"a\":\"";
    let record = Record {
        method: attack,
        authority: attack,
        path: attack,
        request_id: attack,
        user_agent: attack,
        ..call(&web, &carts)
    };
    assert_eq!(line(Queries::Keep, &record).matches('\n').count(), 1);
    let object = parsed(&record);
    assert_eq!(object["client_id"], "spiffe://example.org/ns/shop/sa/web");
    assert_eq!(object["user_agent"].as_str().map(str::as_bytes), Some(attack));
    assert_eq!(object.as_object().map(serde_json::Map::len), Some(22));
}

#[test]
fn the_longest_line_has_a_bound() {
    let (web, carts) = (workload("web"), workload("carts"));
    let long = [0xff; 100_000];
    let record = Record {
        method: &long,
        authority: &long,
        path: &long,
        request_id: &long,
        user_agent: &long,
        ..call(&web, &carts)
    };
    assert!(line(Queries::Keep, &record).len() < 6 * (32 + 256 + 1_024 + 128 + 256) + 1_000);
}
