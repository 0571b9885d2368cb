use super::*;

fn read(text: &str) -> Objectives {
    Objectives::read(text, "Service shop/cart".into()).expect(text)
}

fn refused(text: &str) -> String {
    let NotAnObjective { what, fix } = Objectives::read(text, "Service shop/cart".into()).expect_err(text);
    format!("{what}; {fix}")
}

#[test]
fn one_objective_without_a_method_is_for_every_method() {
    let objectives = read("success 99.9 %, p99 50ms");
    let all = Objective {
        success: Some(Share(99_900)),
        latency: Some(LatencyObjective { share: Share(99_000), bound: Duration::from_millis(50) }),
    };
    assert_eq!(objectives.of(true, b"/shop.v1.Cart/Get"), Some(&all));
    assert_eq!(objectives.of(false, b"POST"), Some(&all));
    assert_eq!(objectives.of_others(), Some(&all));
}

#[test]
fn either_part_may_be_absent_and_spaces_are_free() {
    assert_eq!(read("success 99.999%").of_others().expect("one").to_string(), "success 99.999 %");
    assert_eq!(read(" p99.9   1m30s ").of_others().expect("one").to_string(), "p99.9 1m30s");
    assert_eq!(read("p50 1ms,success 1 %").of_others().expect("one").to_string(), "success 1 %, p50 1ms");
}

#[test]
fn the_most_specific_line_is_the_objective_in_any_order() {
    let text = "*: success 90 %\nshop.v1.Cart/*: success 99 %\n\nshop.v1.Cart/Get: p99 50ms\nPOST: success 95 %";
    let mut lines: Vec<&str> = text.lines().collect();
    for _ in 0..lines.len() {
        lines.rotate_left(1);
        let objectives = read(&lines.join("\n"));
        let of = |is_grpc, name: &str| objectives.of(is_grpc, name.as_bytes()).expect("one").to_string();
        assert_eq!(of(true, "/shop.v1.Cart/Get"), "p99 50ms");
        assert_eq!(of(true, "/shop.v1.Cart/Add"), "success 99 %");
        assert_eq!(of(true, "/shop.v1.Carts/Add"), "success 90 %");
        assert_eq!(of(false, "POST"), "success 95 %");
        assert_eq!(of(false, "GET"), "success 90 %");
        assert_eq!(objectives.of_others().map(ToString::to_string).as_deref(), Some("success 90 %"));
    }
}

#[test]
fn calls_without_a_line_have_no_objective() {
    let objectives = read("shop.v1.Cart/Get: success 99 %");
    assert_eq!((objectives.of(true, b"/shop.v1.Cart/Add"), objectives.of_others()), (None, None));
}

#[test]
fn what_is_written_is_read_again() {
    for text in ["success 99.95 %, p99.9 1h", "shop.v1.Cart/Get: p50 1ms\nGET: success 1 %\nshop.v1.Cart/*: p75 2s"] {
        let objectives = read(text);
        assert_eq!(read(&objectives.to_string()), objectives);
    }
}

#[test]
fn a_mistake_says_what_is_wrong_and_what_to_write() {
    for (text, what) in [
        ("", "no objective; write success 99.9 %, p99 50ms"),
        ("success", "\"\" is not a share of successful calls; write 1 % to 99.999 %"),
        ("success 99.9", "\"99.9\" is not a share of successful calls"),
        ("success 100 %", "\"100 %\" is not a share"),
        ("success 0.9 %", "\"0.9 %\" is not a share"),
        ("success 99.9999 %", "at most three digits"),
        ("p49 50ms", "\"p49\" is not a percentile; use p50 to p99.9"),
        ("p99", "\"\" is not the time of a call; write a duration from 1ms to 1h"),
        ("p99 2h", "\"2h\" is not the time of a call"),
        ("p99 p50", "\"p50\" is not the time of a call"),
        ("sucess 99 %", "\"sucess 99 %\" is not an objective"),
        ("success 99 %, ", "a part of an objective is missing"),
        ("success 99 %, success 98 %", "\"success 98 %\" is one too many"),
        ("get: success 99 %", "\"get\" is not a method; write a gRPC method as shop.v1.Cart/Get"),
        ("Cart/Get: success 99 %\nCart/Get: p99 1s", "Cart/Get has two objectives"),
        ("success 99 %\n*: success 98 %", "* has two objectives"),
    ] {
        assert!(refused(text).contains(what), "{text}: {}", refused(text));
    }
}

#[test]
fn the_number_and_the_length_of_lines_are_bounded() {
    let lines = |count| (0..count).map(|line| format!("Cart/Get{line}: p99 1s\n")).collect::<String>();
    read(&lines(OBJECTIVE_LINES_MAX));
    assert!(refused(&lines(OBJECTIVE_LINES_MAX + 1)).starts_with("33 lines; use at most 32"));
    assert!(refused(&format!("p99 1s{}x", " ".repeat(LINE_MAX_BYTES))).starts_with("a line of 519 bytes"));
}
