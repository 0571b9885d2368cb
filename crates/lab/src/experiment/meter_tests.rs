use super::*;

fn meter(at: Instant, proxy_ms: u64, ours_ms: u64, machine_ms: u64) -> Meter {
    let ms = Duration::from_millis;
    Meter { at, proxy: Some(ms(proxy_ms)), server_proxy: None, ours: ms(ours_ms), machine: ms(machine_ms) }
}

#[test]
fn what_the_machine_did_beside_us_is_foreign() {
    let start = Instant::now();
    let before = meter(start, 100, 1_000, 5_000);
    let after = meter(start + Duration::from_secs(10), 1_100, 16_000, 21_000);
    assert_eq!(after.proxy_since(&before), Some(Duration::from_secs(1)));
    assert!((after.foreign_since(&before) - 0.1).abs() < 1e-9);
}

#[test]
fn clocks_that_disagree_do_not_make_less_than_nothing() {
    let start = Instant::now();
    let before = meter(start, 0, 1_000, 5_000);
    let after = meter(start + Duration::from_secs(1), 0, 2_010, 6_000);
    assert!(after.foreign_since(&before).abs() < 1e-9);
}
