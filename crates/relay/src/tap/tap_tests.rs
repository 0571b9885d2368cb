use serde_json::Value;

use super::*;
use crate::access_log::fixtures::{call, workload};

struct Bench {
    taps: Taps,
    now: Instant,
    random: fastrand::Rng,
    /// The class of the next calls.
    class: Class,
}

impl Bench {
    fn new() -> Self {
        Self { taps: Taps::default(), now: Instant::now(), random: fastrand::Rng::with_seed(7), class: Class::Success }
    }

    fn begin(&mut self, selection: TapSelection) -> Arc<Tap> {
        let tap = Tap::new(selection);
        self.taps.begin(tap.clone(), self.now);
        tap
    }

    /// Shows one call, changed by `change`, to all taps.
    fn show(&mut self, change: impl FnOnce(&mut Record<'_>)) {
        let (client, server) = (workload("web"), workload("cart"));
        let mut record = call(&client, &server);
        change(&mut record);
        let mut request = FieldSection::new();
        request.push(b":path", b"/shop.Carts/Get?token=secret");
        request.push(b"authorization", b"secret");
        let mut tapped = TappedFields::default();
        tapped.response.push(b":status", b"200");
        tapped.trailers.push(b"grpc-status", b"0");
        self.taps.show((&record, self.class), &request, Some(&tapped), self.now, &mut self.random);
    }
}

fn lines(tap: &Tap) -> Vec<Value> {
    let text = String::from_utf8(tap.take().0).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn each_tap_gets_the_calls_that_it_selects() {
    let mut bench = Bench::new();
    let all = bench.begin(TapSelection::default());
    let failed = bench.begin(TapSelection { failed: true, ..TapSelection::default() });
    let web = bench.begin(TapSelection { peer: Some("web".to_owned()), ..TapSelection::default() });
    let cart = bench.begin(TapSelection { peer: Some("cart".to_owned()), ..TapSelection::default() });
    bench.show(|_| {});
    bench.class = Class::Failure;
    bench.show(|record| record.grpc_status = Some(14));
    bench.show(|record| (record.direction, record.status) = (Direction::Outbound, None));
    bench.class = Class::Cancelled;
    bench.show(|record| (record.direction, record.status) = (Direction::Outbound, None));
    let count = |tap: &Tap| lines(tap).len();
    assert_eq!(count(&failed), 2, "an answer that failed, and a call without one");
    assert_eq!((count(&web), count(&cart)), (2, 2), "the peer of an outbound call is its server");
    let shown = lines(&all);
    assert_eq!(shown.len(), 4);
    assert_eq!((&shown[0]["path"], &shown[0]["grpc_status"]), (&Value::from("/shop.Carts/Get"), &Value::from(0)));
    assert_eq!(shown[0].get("request_headers"), None);
}

#[test]
fn a_percentile_selects_the_calls_that_are_slow_for_their_own_method() {
    const MS: Duration = Duration::from_millis(1);
    let mut bench = Bench::new();
    assert!(bench.taps.latencies.is_none());
    let permille = Some(900);
    let tap = bench.begin(TapSelection { slower_than_permille: permille, ..TapSelection::default() });
    let show = |bench: &mut Bench, authority: &'static [u8], took: Duration| {
        bench.show(|record| {
            (record.direction, record.authority, record.duration) = (Direction::Outbound, authority, took);
        });
    };
    show(&mut bench, b"fast", 90 * MS);
    assert!(lines(&tap).is_empty(), "too few calls are known");
    for _ in 0..99 {
        show(&mut bench, b"fast", 10 * MS);
        show(&mut bench, b"slow", 80 * MS);
    }
    lines(&tap);
    // A computed percentile stays in use for 100 ms.
    bench.now += SECOND;
    show(&mut bench, b"fast", 40 * MS);
    show(&mut bench, b"slow", 40 * MS);
    bench.class = Class::Cancelled;
    show(&mut bench, b"slow", 200 * MS);
    bench.show(|record| (record.protocol, record.duration) = (Protocol::Opaque, 100 * SECOND));
    let shown: Vec<_> = lines(&tap).iter().map(|call| call["authority"].clone()).collect();
    assert_eq!(shown, ["fast", "slow"], "40 ms are slow for one of the methods, 200 ms for the other");

    tap.close();
    bench.taps.forget_closed();
    assert!(bench.taps.latencies.is_none(), "without a tap, no latencies are kept");
}

#[test]
fn headers_are_shown_without_secrets_if_they_are_asked_for() {
    let mut bench = Bench::new();
    let tap = bench.begin(TapSelection { headers: true, ..TapSelection::default() });
    assert!(bench.taps.shows_fields());
    bench.show(|_| {});
    let shown = &lines(&tap)[0];
    assert_eq!(shown["request_headers"][1], serde_json::json!(["authorization", "(blanked)"]));
    assert_eq!(shown["response_headers"], serde_json::json!([[":status", "200"]]));
    assert_eq!(shown["response_trailers"], serde_json::json!([["grpc-status", "0"]]));
    assert!(!shown.to_string().contains("secret"), "{shown}");
}

#[test]
fn calls_beyond_the_rate_are_dropped_and_counted() {
    let mut bench = Bench::new();
    let tap = bench.begin(TapSelection { rate: 10, ..TapSelection::default() });
    (0..25).for_each(|_| bench.show(|_| {}));
    let (text, dropped) = tap.take();
    assert_eq!((text.iter().filter(|byte| **byte == b'\n').count(), dropped), (10, 15));
    bench.now += SECOND;
    bench.show(|_| {});
    assert_eq!((lines(&tap).len(), tap.take().1), (1, 0));
}

#[test]
fn calls_beyond_the_buffer_are_dropped_and_counted() {
    let mut bench = Bench::new();
    let tap = bench.begin(TapSelection { rate: TapSelection::MAX_RATE, ..TapSelection::default() });
    (0..TapSelection::MAX_RATE).for_each(|_| bench.show(|_| {}));
    let (text, dropped) = tap.take();
    assert!(text.len() <= MAX_WAITING_BYTES && dropped > 0, "{} bytes, {dropped} dropped", text.len());
    let shown = text.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(shown + dropped, u64::from(TapSelection::MAX_RATE));
}

#[test]
fn a_sample_has_about_the_share_that_was_asked_for() {
    let mut bench = Bench::new();
    let tap = bench.begin(TapSelection { one_in: 10, rate: TapSelection::MAX_RATE, ..TapSelection::default() });
    (0..5_000).for_each(|_| bench.show(|_| {}));
    let shown = lines(&tap).len();
    assert!((400..600).contains(&shown), "{shown} of 5,000");
}

#[test]
fn closed_taps_are_forgotten_and_make_room() {
    let mut bench = Bench::new();
    let taps: Vec<_> = (0..MAX_TAPS).map(|_| bench.begin(TapSelection::default())).collect();
    let further = bench.begin(TapSelection { headers: true, ..TapSelection::default() });
    bench.show(|_| {});
    assert!(lines(&further).is_empty() && !bench.taps.shows_fields(), "there is no room");
    taps.iter().for_each(|tap| tap.close());
    bench.taps.forget_closed();
    assert!(!bench.taps.is_open());
    let next = bench.begin(TapSelection::default());
    bench.show(|_| {});
    assert_eq!(lines(&next).len(), 1);
}

#[test]
fn a_worker_does_not_wait_for_the_buffer() {
    let mut bench = Bench::new();
    let tap = bench.begin(TapSelection::default());
    let guard = tap.lines.lock().expect("it is not poisoned");
    let shown = std::thread::scope(|scope| scope.spawn(|| bench.show(|_| {})).join());
    shown.expect("it did not wait");
    drop(guard);
    assert_eq!(tap.take(), (Vec::new(), 1));
}
