use std::time::Duration;

use super::*;

fn selection(json: &str) -> TapSelection {
    serde_json::from_str(json).expect("a selection")
}

#[test]
fn a_method_matches_whole_segments() {
    let of = |method: &str, path: &str| {
        let method = Some(method.to_owned());
        TapSelection { method, ..TapSelection::default() }.has_method(path.as_bytes())
    };
    assert!(of("shop.v1.Cart/Add", "/shop.v1.Cart/Add") && of("/shop.v1.Cart/Add", "/shop.v1.Cart/Add"));
    assert!(of("shop.v1.Cart", "/shop.v1.Cart/Add") && of("/items", "/items/7") && of("/items/", "/items/7"));
    assert!(of("/", "/anything"));
    assert!(!of("shop.v1.Cart/A", "/shop.v1.Cart/Add") && !of("shop.v1.Car", "/shop.v1.Cart/Add"));
    assert!(!of("/items/7", "/items"));
    assert!(TapSelection::default().has_method(b"/anything"));
}

#[test]
fn routes_and_identities_match_with_and_without_their_namespace() {
    let of = |text: &str| {
        let named = Some(text.to_owned());
        let selection = TapSelection { route: named.clone(), peer: named, ..TapSelection::default() };
        let pair = Some(("shop", "cart"));
        assert_eq!(selection.has_route(pair), selection.has_peer(pair));
        assert!(!selection.has_route(None) && !selection.has_peer(None));
        selection.has_route(pair)
    };
    assert!(of("cart") && of("shop/cart"));
    assert!(!of("bank/cart") && !of("car") && !of("shop"));
}

#[test]
fn statuses_are_names_or_numbers() {
    assert_eq!("unavailable".parse(), Ok(TapStatus::Grpc(14)));
    assert_eq!("0".parse(), Ok(TapStatus::Grpc(0)));
    assert_eq!("503".parse(), Ok(TapStatus::Http(503)));
    for text in ["17", "99", "600", "BROKEN", ""] {
        text.parse::<TapStatus>().expect_err(text);
    }
    let wanted = selection(r#"{"statuses": [{"grpc": 14}, {"http": 503}]}"#);
    assert!(wanted.has_status(Some(200), Some(14)) && wanted.has_status(Some(503), None));
    assert!(!wanted.has_status(Some(200), Some(0)) && !wanted.has_status(None, None));
}

#[test]
fn only_longer_times_are_slow() {
    let wanted = selection(r#"{"slower_than_ms": 100}"#);
    let is_slow = |ms| wanted.is_slow(Duration::from_millis(ms), |_| None);
    assert!(is_slow(101) && !is_slow(100));
}

#[test]
fn a_call_is_slow_by_the_percentile_of_its_method_once_it_is_known() {
    let wanted = TapSelection::default().slower_than(Some(SlowerThan::Percentile(990)));
    assert_eq!(selection(r#"{"slower_than_permille": 990}"#), wanted);
    let is_slow = |ms, known| {
        let percentile = |permille| {
            assert_eq!(permille, 990);
            known
        };
        wanted.is_slow(Duration::from_millis(ms), percentile)
    };
    let known = Some(Duration::from_millis(20));
    assert!(is_slow(21, known) && !is_slow(20, known) && !is_slow(10_000, None));
}

#[test]
fn slow_is_a_duration_or_a_percentile() {
    let of = |text: &str| text.parse::<SlowerThan>();
    assert_eq!(of("200ms"), Ok(SlowerThan::Time(Duration::from_millis(200))));
    assert_eq!((of("p99"), of("p99.9")), (Ok(SlowerThan::Percentile(990)), Ok(SlowerThan::Percentile(999))));
    for text in ["", "p", "p100", "p49", "p99.99", "99", "slow", "P99"] {
        of(text).expect_err(text);
    }
}

#[test]
fn a_selection_survives_its_json_and_has_no_unknown_fields() {
    let all = TapSelection {
        side: Some(TapSide::Inbound),
        method: Some("a.B".to_owned()),
        statuses: vec![TapStatus::Grpc(14)],
        failed: true,
        rate: 7,
        headers: true,
        ..TapSelection::default()
    };
    let json = serde_json::to_string(&all).expect("JSON");
    assert_eq!(
        json,
        r#"{"side":"inbound","method":"a.B","statuses":[{"grpc":14}],"failed":true,"rate":7,"headers":true}"#
    );
    assert_eq!(selection(&json), all);
    let error = serde_json::from_str::<TapSelection>(r#"{"methods": "x"}"#).expect_err("a typing error").to_string();
    assert!(error.contains("methods"), "{error}");
}

#[test]
fn the_rate_has_a_default_and_a_limit() {
    let rate = |rate| TapSelection { rate, ..TapSelection::default() }.rate();
    assert_eq!((rate(0), rate(7), rate(u32::MAX)), (100, 7, 10_000));
}
