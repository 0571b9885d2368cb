use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn each_call_is_in_the_second_in_which_it_was_due() {
    let mut windows = Windows::new(2500 * MS);
    windows.record(Duration::ZERO, 10 * MS);
    windows.record(999 * MS, 10 * MS);
    windows.record(2499 * MS, 30 * MS);
    windows.record(3000 * MS, MS);
    let found = windows.finish();
    assert_eq!(found.iter().map(|window| window.calls).collect::<Vec<_>>(), [2, 0, 1]);
    assert!((found[0].p50_ms / 10.0 - 1.0).abs() < 0.01, "{found:?}");
    assert!((found[2].p99_ms / 30.0 - 1.0).abs() < 0.01, "{found:?}");
    assert_eq!(found[1], Window::default());
    assert_eq!(windows.answered(), 3);
}
