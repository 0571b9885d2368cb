use super::*;

#[test]
fn the_failing_backends_share_is_of_all_calls_that_reached_any_backend() {
    assert!((share(&[40, 40, 40, 40, 40], 4) - 0.2).abs() < 1e-9);
    assert!((share(&[1, 0, 0, 0, 999], 4) - 0.999).abs() < 1e-9);
    assert!(share(&[0; 5], 4).abs() < 1e-9);
}
