use super::*;

#[test]
fn the_difference_of_two_times_is_the_time_between_them_and_never_negative() {
    let start = BootInstant::now();
    let later = start + Duration::from_secs(8 * 60 * 60);
    assert_eq!(later - start, Duration::from_secs(8 * 60 * 60));
    assert_eq!(start - later, Duration::ZERO);
    assert!(BootInstant::now() >= start, "the clock does not go back");
}
