use std::collections::BTreeSet;

use leno_model::explain::{CallQuestion, CallSide};
use serde_json::json;

use super::*;

/// The explanation of a call to cart.shop:80, if the caller's proxy and the server's proxy give these answers.
fn explained(answer: serde_json::Value, server: Option<serde_json::Value>) -> Explained {
    let server = server.map(|answer| Server {
        answer: Some(serde_json::from_value(answer).expect("an answer")),
        ..Server::new("cart.shop:80".to_owned(), "10.0.0.2:50051".to_owned())
    });
    let side = CallSide::Outbound { authority: "cart.shop:80".to_owned(), address: None };
    Explained {
        question: CallQuestion {
            side,
            method: "POST".to_owned(),
            path: "/shop.v1.Cart/Get".to_owned(),
            headers: Vec::new(),
        },
        asked: "Pod shop/web-1".to_owned(),
        other_callers: BTreeSet::new(),
        answer: serde_json::from_value(answer).expect("an answer"),
        servers: server.into_iter().collect(),
    }
}

fn sent() -> serde_json::Value {
    let choice =
        json!({"address": "10.0.0.2:50051", "why": "ready with 0 in flight", "server": "spiffe://a/ns/shop/sa/cart"});
    let backend = json!({"to": "cart.shop:80", "share": 1.0, "balancer": "latency", "choice": choice});
    let retry = json!({"attempts": 2, "mode": "Enforce", "set_by": "TrafficPolicy shop/cart"});
    json!({
        "outcome": "sent",
        "own": "spiffe://a/ns/shop/sa/web",
        "outbound": {
            "destination": "cart.shop:80", "is_service": true, "backends": [backend], "calls": {"retry": retry},
            "deadline_ms": 2000, "deadline_set_by": "TrafficPolicy shop/cart",
        },
    })
}

fn decided(verdict: &str, lines: usize) -> serde_json::Value {
    let lines: Vec<_> = (0..lines)
        .map(|number| json!({"field": "spec.allow[0]", "value": format!("ns/shop/sa/web-{number}")}))
        .collect();
    let policy =
        json!({"name": "shop/cart", "target": "every port in namespace shop", "mode": "Enforce", "lines": lines});
    let failed = json!({"failed": {"error": "denied", "why": "no", "http_status": 403, "grpc_status": 7}});
    json!({
        "outcome": if verdict == "denied" { failed } else { json!("sent") },
        "inbound": {"port": 50051, "caller": "spiffe://a/ns/shop/sa/web", "policy": {
            "verdict": verdict, "decided_by": {"authorization_policy": "shop/cart"}, "default_policy": "deny",
            "policies": [policy],
        }},
    })
}

fn first_line(explained: &Explained) -> String {
    text(explained).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn the_first_line_is_the_answer() {
    let allowed = explained(sent(), Some(decided("allowed", 1)));
    assert_eq!(first_line(&allowed), "would go to 10.0.0.2:50051 (cart.shop:80)");
    assert!(is_sent(&allowed));
    let denied = explained(sent(), Some(decided("denied", 2)));
    let story = text(&denied);
    let line = "would be denied at 10.0.0.2:50051 (cart.shop:80) by AuthorizationPolicy shop/cart, which allows only \
                ns/shop/sa/web-0,";
    assert!(story.starts_with(line) && !is_sent(&denied), "{story}");
    let failure = json!({"error": "no-route", "why": "there is no Service", "http_status": 404, "grpc_status": 12});
    let failed = explained(json!({"outcome": {"failed": failure}}), None);
    assert!(first_line(&failed).starts_with("would fail with no-route: there is no Service"), "{}", text(&failed));
    let unknown = explained(json!({"outcome": {"unknown": {"subject": "cart.shop:80"}}}), None);
    assert!(first_line(&unknown).contains("check leno-control") && !is_sent(&unknown));
}

/// The text before the first empty line, without its line breaks.
fn whole_verdict(explained: &Explained) -> String {
    text(explained).split("\n\n").next().unwrap_or_default().replace('\n', " ")
}

/// The explanation of a call that a route splits: 90 % of the calls go to v1.shop:80, and 10 % to v2.shop:80. The proxies
/// of the endpoints give these answers; `None` for a backend without an endpoint.
fn split(answers: [Option<serde_json::Value>; 2]) -> Explained {
    let mut answer = sent();
    let mut backends = Vec::new();
    let mut servers = Vec::new();
    for ((name, share), given) in [("v1.shop:80", 0.9), ("v2.shop:80", 0.1)].into_iter().zip(answers) {
        let address = format!("10.0.0.{}:50051", backends.len() + 1);
        let mut backend = json!({"to": name, "share": share, "balancer": "latency"});
        match given {
            Some(given) => {
                let given = serde_json::from_value(given).expect("an answer");
                servers.push(Server { answer: Some(given), ..Server::new(name.to_owned(), address.clone()) });
                backend["choice"] = json!({"address": address, "why": "ready"});
            }
            None => {
                backend["failure"] =
                    json!({"error": "no-endpoint", "why": "it has none", "http_status": 503, "grpc_status": 14});
            }
        }
        backends.push(backend);
    }
    answer["outbound"]["backends"] = json!(backends);
    Explained { servers, ..explained(answer, None) }
}

#[test]
fn if_a_route_splits_the_calls_each_share_is_told_by_itself() {
    let (yes, no) = (|| Some(decided("allowed", 1)), || Some(decided("denied", 1)));
    let policy = "by AuthorizationPolicy shop/cart, which allows only ns/shop/sa/web-0";
    let (v1, v2) = ("10.0.0.1:50051 (v1.shop:80, 90 %)", "10.0.0.2:50051 (v2.shop:80, 10 %)");
    for (answers, expected) in [
        ([yes(), yes()], format!("would go to {v1} or {v2}")),
        ([yes(), no()], format!("would go to {v1}, or be denied at {v2} {policy}")),
        ([no(), yes()], format!("would go to {v2}, or be denied at {v1} {policy}")),
        ([no(), no()], format!("would be denied at {v1} {policy}, or be denied at {v2} {policy}")),
        ([None, no()], format!("would fail with no-endpoint (v1.shop:80, 90 %), or be denied at {v2} {policy}")),
        ([yes(), None], format!("would go to {v1}, or fail with no-endpoint (v2.shop:80, 10 %)")),
    ] {
        let explained = split(answers);
        let verdict = whole_verdict(&explained);
        assert_eq!(verdict, expected);
        assert_eq!(is_sent(&explained), !verdict.contains("denied") && !verdict.contains("fail"), "{verdict}");
    }
}

#[test]
fn a_proxy_that_waits_for_its_policies_leaves_the_outcome_unknown() {
    let waits = Some(json!({"outcome": {"unknown": {"subject": "policies"}}}));
    let explained = split([Some(decided("allowed", 1)), waits]);
    let line = "would go to 10.0.0.1:50051 (v1.shop:80, 90 %) or 10.0.0.2:50051 (v2.shop:80, 10 %), but the policies of \
                10.0.0.2:50051 are unknown";
    assert_eq!(whole_verdict(&explained), line);
    assert!(!is_sent(&explained) && text(&explained).contains("waits for its policies; check leno-control"));
}

#[test]
fn a_call_to_a_proxy_that_could_not_be_asked_is_not_known_to_be_sent() {
    let with = |note: &str, is_unknown| {
        let silent = Server::new("cart.shop:80".to_owned(), "10.0.0.2:50051 (Pod cart-1)".to_owned());
        let servers = vec![Server { note: Some(note.to_owned()), is_unknown, ..silent }];
        Explained { servers, ..explained(sent(), None) }
    };
    let unknown = with("its policies are unknown: no rights", true);
    let line = "would go to 10.0.0.2:50051 (cart.shop:80), but the policies of 10.0.0.2:50051 (Pod cart-1) are unknown";
    assert_eq!(first_line(&unknown), line);
    assert!(!is_sent(&unknown));
    let without_proxy = with("it has no proxy, so no policy is enforced there", false);
    assert_eq!(first_line(&without_proxy), "would go to 10.0.0.2:50051 (cart.shop:80)");
    assert!(is_sent(&without_proxy));
}

#[test]
fn the_story_tells_whether_calls_to_an_endpoint_of_a_headless_service_are_balanced() {
    let told = |destination: &str, is_service: bool, in_http2: bool| {
        let mut answer = sent();
        let outbound = &mut answer["outbound"];
        outbound["destination"] = json!(destination);
        outbound["is_service"] = json!(is_service);
        outbound["endpoint_of"] = json!("cart.shop:80");
        outbound["is_balanced_in_http2"] = json!(in_http2);
        let mut explained = explained(answer, None);
        let address = Some("10.0.0.2:50051".parse().expect("an address"));
        explained.question.side = CallSide::Outbound { authority: "cart.shop:80".to_owned(), address };
        let story = text(&explained);
        let service = story.lines().find(|line| line.starts_with("service")).expect("a line");
        service.to_owned()
    };
    let (service, endpoint) = ("cart.shop:80", "10.0.0.2:50051");
    let line = "cart.shop:80, headless: the client dials 10.0.0.2:50051, and its calls in HTTP/2 are balanced over the Service";
    assert_eq!(told(service, true, true), format!("service    {line}"));
    let line = "10.0.0.2:50051, an endpoint of cart.shop:80 that the client dials: ";
    assert!(
        told(endpoint, false, true).starts_with(&format!("service    {line}only calls in HTTP/2, as gRPC clients"))
    );
    let what = "its calls are not balanced over the Service";
    assert_eq!(told(endpoint, false, false), format!("service    {line}{what}"));
}

#[test]
fn limits_are_shown_with_the_object_that_sets_them() {
    let story = text(&explained(sent(), None));
    assert!(story.contains("deadline   2000 ms, set by TrafficPolicy shop/cart\n"), "{story}");
    assert!(story.contains("policy     retry: attempts: 2, set by TrafficPolicy shop/cart\n"), "{story}");
}

#[test]
fn other_callers_are_named_if_the_user_chose_none() {
    let mut explained = explained(sent(), None);
    let line = "caller     spiffe://a/ns/shop/sa/web, as Pod shop/web-1 says";
    assert!(text(&explained).contains(&format!("{line}\n")), "{}", text(&explained));
    explained.other_callers = ["shop/db", "shop/cart"].map(str::to_owned).into();
    let line = format!("{line}; --from chooses another caller: shop/cart, shop/db\n");
    assert!(text(&explained).contains(&line), "{}", text(&explained));
    explained.other_callers = (0..SHOWN_MAX + 2).map(|number| format!("shop/a{number:02}")).collect();
    assert!(text(&explained).contains("shop/a07 and 2 more"), "{}", text(&explained));
}

#[test]
fn lines_are_short_and_safe_to_print() {
    let mut hostile = explained(sent(), Some(decided("denied", 100)));
    hostile.question.headers = vec![("x".to_owned(), "a\u{1b}[2J\nb ".repeat(60) + &"long".repeat(100))];
    hostile.servers[0].endpoint = "10.0.0.2\u{202e}".to_owned();
    let story = text(&hostile);
    assert!(story.lines().all(|line| line.chars().count() <= WIDTH), "{story}");
    assert!(!story.contains('\u{1b}') && !story.contains('\u{202e}') && story.contains("and 92 more"), "{story}");
}

#[test]
fn shares_are_written_as_people_read_them() {
    assert_eq!((percent(0.1), percent(1.0), percent(1.0 / 3.0)), ("10 %".into(), "100 %".into(), "33.33 %".into()));
}
