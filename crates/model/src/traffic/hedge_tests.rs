use std::time::Duration;

use super::{Hedge, HedgeDelay};

#[test]
fn a_delay_is_a_duration_or_a_percentile() {
    let read = |text: &str| text.parse::<HedgeDelay>();
    assert_eq!(read("30ms"), Ok(HedgeDelay::Fixed(Duration::from_millis(30))));
    assert_eq!(read("p50"), Ok(HedgeDelay::Percentile(500)));
    assert_eq!(read("p95"), Ok(HedgeDelay::Percentile(950)));
    assert_eq!(read("p99.9"), Ok(HedgeDelay::Percentile(999)));
    for text in ["p101", "p100", "p49.9", "p99.99", "p", "p-1", "p9.5", "p+95", "95", "0ms", "2h", "p 95", "p99999999"]
    {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn a_delay_is_written_as_it_is_read() {
    for text in ["30ms", "1s500ms", "p50", "p99.5"] {
        assert_eq!(text.parse::<HedgeDelay>().expect("a delay").to_string(), text);
    }
}

#[test]
fn a_call_is_hedged_if_one_of_the_methods_is_its_own() {
    let methods = ["shop.v1.Cart/Get", "shop.v1.Stock/*", "GET"].map(|text| text.parse().expect("a method"));
    let hedge = Hedge { delay: HedgeDelay::Percentile(950), attempts: 1, methods: methods.into() };
    assert!(hedge.applies_to(true, b"/shop.v1.Cart/Get"));
    assert!(hedge.applies_to(true, b"/shop.v1.Stock/Query"));
    for other in
        [&b"/shop.v1.Cart/Add"[..], b"/shop.v1.Cart/GetAll", b"/shop.v1.Stocks/Query", b"shop.v1.Cart/Get", b"/"]
    {
        assert!(!hedge.applies_to(true, other), "{}", String::from_utf8_lossy(other));
    }
    assert!(hedge.applies_to(false, b"GET"));
    assert!(!hedge.applies_to(false, b"POST"));
    // The name of an HTTP method matches no gRPC call, and the name of a gRPC method matches no other call.
    assert!(!hedge.applies_to(true, b"GET"));
    assert!(!hedge.applies_to(false, b"/shop.v1.Cart/Get"));
}
