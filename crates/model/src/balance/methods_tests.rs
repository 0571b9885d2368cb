use super::*;

const FAST: Method = Method(1);
const SLOW: Method = Method(2);

fn close(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 0.01
}

/// A cluster in which calls of FAST take 1 ms and calls of SLOW take 100 ms.
fn settled() -> Methods {
    let mut methods = Methods::default();
    for _ in 0..500 {
        methods.observe(FAST, 1.0);
        methods.observe(SLOW, 100.0);
    }
    methods
}

#[test]
fn the_latencies_of_a_single_method_are_left_as_they_are() {
    let mut methods = Methods::default();
    for latency_ms in [3.0, 0.7, 120.0, 0.0, 4.5] {
        assert_eq!(methods.observe(FAST, latency_ms), latency_ms);
        assert_eq!(methods.normalised(FAST, latency_ms), latency_ms);
        assert_eq!(methods.normalised_at_least(latency_ms), latency_ms);
    }
}

#[test]
fn usual_answers_of_fast_and_slow_methods_count_the_same() {
    let mut methods = settled();
    let (fast, slow) = (methods.observe(FAST, 1.0), methods.observe(SLOW, 100.0));
    // Each latency is converted to that of the average method, the geometric mean of 1 and 100 ms.
    assert!(close(fast, 10.0) && close(slow, 10.0), "{fast} {slow}");
    let (fast, slow) = (methods.observe(FAST, 3.0), methods.observe(SLOW, 300.0));
    assert!(close(fast, 30.0) && close(slow, 30.0), "{fast} {slow}");
}

#[test]
fn a_wait_of_an_unknown_method_counts_as_one_of_the_slowest() {
    let methods = settled();
    assert!(close(methods.normalised_at_least(100.0), 10.0));
    assert!(close(methods.normalised(FAST, 100.0), 1000.0));
}

#[test]
fn a_method_never_heard_of_counts_as_the_others_once_there_are_any() {
    let mut methods = settled();
    assert_eq!(methods.normalised(Method(3), 7.0), 7.0);
    let slow_others = 1_000_u32..1_200;
    for number in slow_others {
        for _ in 0..3 {
            methods.observe(Method(number), 100.0);
        }
    }
    let normalised = methods.normalised(Method(3), 100.0);
    assert!(normalised < 100.0, "{normalised}");
}

#[test]
fn ever_new_methods_do_not_push_out_those_that_are_called() {
    let mut methods = settled();
    for number in 10..200_010 {
        methods.observe(Method(number), 10.0);
        if number % 100 == 0 {
            methods.observe(FAST, 1.0);
            methods.observe(SLOW, 100.0);
        }
    }
    let ratio = methods.normalised(FAST, 1.0) / methods.normalised(SLOW, 1.0);
    assert!(close(ratio, 100.0), "{ratio}");
    assert_eq!(methods.places.len(), OTHERS + 1);
}

#[test]
fn a_tenth_of_very_slow_answers_hardly_moves_what_is_usual() {
    let mut methods = Methods::default();
    for number in 0..1000 {
        methods.observe(FAST, if number % 10 == 0 { 500.0 } else { 5.0 });
    }
    let usual_ms = methods.usual_ms().expect("enough answers");
    assert!((5.0..10.0).contains(&usual_ms), "{usual_ms}");
}

#[test]
fn what_is_usual_is_not_told_by_a_few_answers() {
    let mut methods = Methods::default();
    assert_eq!(methods.usual_ms(), None);
    for _ in 1..ENOUGH {
        methods.observe(FAST, 5.0);
    }
    assert_eq!(methods.usual_ms(), None);
    methods.observe(FAST, 5.0);
    assert!(methods.usual_ms().is_some_and(|usual_ms| close(usual_ms, 5.0)));
}

#[test]
fn paths_name_methods() {
    let echo = Method::of_path(b"/leno.echo.v1.Echo/Unary");
    assert_eq!(echo, Method::of_path(b"/leno.echo.v1.Echo/Unary"));
    assert_ne!(echo, Method::of_path(b"/leno.echo.v1.Echo/Bidi"));
    assert_ne!(echo, Method::default());
}
