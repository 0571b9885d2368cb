use std::time::{Duration, Instant};

use super::{FRESH, KnownPercentile, METHODS_MAX, MethodLatencies, PERIOD};
use crate::balance::Method;

const MS: Duration = Duration::from_millis(1);

fn method(name: &str) -> Method {
    Method::of_path(name.as_bytes())
}

/// Adds 95 calls of 1 to 95 ms, and 5 calls of 500 ms.
fn hundred_calls(latencies: &mut MethodLatencies, method: Method, now: Instant) {
    for ms in 1..=95 {
        latencies.add(method, ms * MS, now);
    }
    for _ in 0..5 {
        latencies.add(method, 500 * MS, now);
    }
}

#[test]
fn a_percentile_is_known_after_enough_calls() {
    let (mut latencies, get, now) = (MethodLatencies::default(), method("/shop.Cart/Get"), Instant::now());
    assert_eq!(latencies.percentile(get, 950, now), None);
    hundred_calls(&mut latencies, get, now);
    let p95 = latencies.percentile(get, 950, now).expect("100 calls are enough");
    assert!((88 * MS..=103 * MS).contains(&p95), "{p95:?}");
    assert_eq!(latencies.percentile(get, 990, now), None, "p99 needs 500 calls");
    assert_eq!(latencies.percentile(method("/shop.Cart/Add"), 950, now), None, "no call of it was made");
}

#[test]
fn a_description_says_how_many_calls_are_missing() {
    let (mut latencies, get, now) = (MethodLatencies::default(), method("/shop.Cart/Get"), Instant::now());
    let described = |latencies: &MethodLatencies, permille, at| {
        let KnownPercentile { value, calls, calls_needed } = latencies.describe(get, permille, at);
        (value, calls, calls_needed)
    };
    assert_eq!(described(&latencies, 950, now), (None, 0, 100));
    assert_eq!(latencies.latest_permille(get), None);
    hundred_calls(&mut latencies, get, now);
    let value = latencies.percentile(get, 950, now);
    assert!(value.is_some());
    assert_eq!(described(&latencies, 950, now), (value, 100, 100));
    assert_eq!(latencies.latest_permille(get), Some(950));
    assert_eq!(described(&latencies, 990, now), (None, 100, 500));
    assert_eq!(described(&latencies, 999, now), (None, 100, 5_000));
    assert_eq!(described(&latencies, 950, now + 2 * PERIOD), (None, 0, 100), "the calls are forgotten");
}

#[test]
fn each_method_has_its_own_latencies() {
    let (mut latencies, now) = (MethodLatencies::default(), Instant::now());
    let [fast, slow] = ["/a/Fast", "/a/Slow"].map(method);
    for _ in 0..100 {
        latencies.add(fast, MS, now);
        latencies.add(slow, 200 * MS, now);
    }
    assert!(latencies.percentile(fast, 950, now).is_some_and(|p95| p95 < 2 * MS));
    assert!(latencies.percentile(slow, 950, now).is_some_and(|p95| p95 > 180 * MS));
}

#[test]
fn calls_of_two_periods_ago_are_forgotten() {
    let (mut latencies, get, start) = (MethodLatencies::default(), method("/shop.Cart/Get"), Instant::now());
    for _ in 0..1_000 {
        latencies.add(get, 500 * MS, start);
    }
    let later = start + PERIOD;
    for _ in 0..1_000 {
        latencies.add(get, MS, later);
    }
    assert!(latencies.percentile(get, 950, later).is_some_and(|p95| p95 > 450 * MS), "the period before counts");
    let last = later + PERIOD;
    latencies.add(get, MS, last);
    assert!(latencies.percentile(get, 950, last).is_some_and(|p95| p95 < 2 * MS));
    assert_eq!(latencies.percentile(get, 950, last + 2 * PERIOD), None);
}

#[test]
fn the_number_of_methods_is_bounded_and_idle_ones_make_room() {
    let (mut latencies, start) = (MethodLatencies::default(), Instant::now());
    for number in 0..2 * METHODS_MAX {
        hundred_calls(&mut latencies, method(&format!("/a/{number}")), start);
    }
    assert_eq!(latencies.methods.len(), METHODS_MAX);
    let (new, later) = (method("/a/new"), start + 2 * PERIOD);
    hundred_calls(&mut latencies, new, later);
    assert!(latencies.percentile(new, 950, later).is_some());
    assert_eq!(latencies.methods.len(), 1);
}

/// If the second attempt of a hedged call answers first, the proxy does not learn how long the first attempt would have
/// taken.
#[test]
fn calls_that_were_hedged_do_not_pull_the_percentile_down() {
    let (mut latencies, get, now) = (MethodLatencies::default(), method("/shop.Cart/Get"), Instant::now());
    let mut random = fastrand::Rng::with_seed(7);
    let mut at = now;
    for _ in 0..20_000 {
        at += MS;
        let own = if random.u8(..100) < 3 { 200 * MS } else { Duration::from_micros(random.u64(1_000..5_000)) };
        let delay = latencies.percentile(get, 950, at);
        let waited = delay.map_or(own, |delay| own.min(delay + 3 * MS));
        latencies.add(get, waited, at);
    }
    let p95 = latencies.percentile(get, 950, at).expect("many calls");
    assert!((4 * MS..6 * MS).contains(&p95), "{p95:?}");
}

#[test]
fn of_many_calls_some_are_recorded_and_count_for_all() {
    let (mut latencies, get, now) = (MethodLatencies::default(), method("/shop.Cart/Get"), Instant::now());
    // Every eighth call is slow, as if one of eight endpoints were slow.
    for number in 0..400_000 {
        latencies.add(get, if number % 8 == 0 { 200 * MS } else { MS }, now);
    }
    let p85 = latencies.percentile(get, 850, now).expect("enough calls");
    let p90 = latencies.percentile(get, 900, now).expect("enough calls");
    assert!(p85 < 2 * MS && p90 > 180 * MS, "{p85:?} {p90:?}: 12.5 % are slow");
    // Add slow calls until half of all calls are slow. Percentiles just below the median must then be fast, and
    // percentiles just above it slow. This tests that later calls, of which one in eight is recorded, weigh as much as
    // the first calls.
    for _ in 0..300_000 {
        latencies.add(get, 200 * MS, now);
    }
    let later = now + FRESH;
    let p46 = latencies.percentile(get, 460, later).expect("enough calls");
    let p54 = latencies.percentile(get, 540, later).expect("enough calls");
    assert!(p46 < 2 * MS && p54 > 180 * MS, "{p46:?} {p54:?}: 350,000 of 700,000 are slow");
}
