use super::*;

fn question() -> CallQuestion {
    CallQuestion {
        side: CallSide::Outbound { authority: "cart.shop:80".to_owned(), address: None },
        method: "POST".to_owned(),
        path: "/shop.v1.Cart/Get".to_owned(),
        headers: vec![("x-canary".to_owned(), "yes".to_owned())],
    }
}

#[test]
fn a_question_that_a_request_can_ask_is_accepted() {
    assert_eq!(question().check(), Ok(()));
    let get = CallQuestion { method: "GET".to_owned(), path: "/items?page=2".to_owned(), ..question() };
    assert_eq!(get.check(), Ok(()));
    assert!(get.has_no_content() && !question().has_no_content());
}

#[test]
fn texts_that_no_request_can_have_are_refused_with_what_to_write() {
    let refused = |change: fn(&mut CallQuestion)| {
        let mut question = question();
        change(&mut question);
        question.check().expect_err("it is wrong").to_string()
    };
    let cases = [
        (refused(|q| q.method = "GET it".to_owned()), "write one as GET"),
        (refused(|q| q.path = "items".to_owned()), "write one as /items"),
        (refused(|q| q.path = "/a\r\nb".to_owned()), "write one as /items"),
        (refused(|q| q.path = "/ä".to_owned()), "write one as /items"),
        (refused(|q| q.headers[0].0 = "X-Canary".to_owned()), "lower case"),
        (refused(|q| q.headers[0].0 = ":path".to_owned()), "lower case"),
        (refused(|q| q.headers[0].1 = "a\u{1b}[2J".to_owned()), "x-canary has a character"),
        (refused(|q| q.headers = vec![q.headers[0].clone(); FIELDS_MAX + 1]), "at most 64"),
        (refused(|q| q.headers[0].1 = "v".repeat(HEAD_MAX_BYTES)), "at most 3072"),
        (
            refused(|q| q.side = CallSide::Outbound { authority: "a b".to_owned(), address: None }),
            "a Service and its port",
        ),
    ];
    for (why, fix) in cases {
        assert!(why.contains(fix) && why.chars().all(|letter| !letter.is_control()), "{why}");
    }
}

#[test]
fn a_question_goes_through_json_and_unknown_fields_are_refused() {
    let json = serde_json::to_string(&question()).expect("it is data");
    assert_eq!(serde_json::from_str::<CallQuestion>(&json).expect("it is the same"), question());
    let inbound = r#"{"side": {"inbound": {"port": 80, "address": "10.0.0.1"}}, "method": "GET", "path": "/"}"#;
    assert!(serde_json::from_str::<CallQuestion>(inbound).is_ok());
    for wrong in [json.replace("\"path\"", "\"paths\""), inbound.replace("\"port\"", "\"ports\"")] {
        assert!(serde_json::from_str::<CallQuestion>(&wrong).is_err(), "{wrong}");
    }
}
