use super::*;

#[test]
fn a_flood_writes_a_few_lines_a_second_and_says_how_many_it_did_not() {
    let (rate, start) = (LogRate::default(), Instant::now());
    let written = (0..1_000).filter(|_| rate.admits(start).is_some()).count();
    assert_eq!(written, LINES_MAX as usize);
    assert_eq!(rate.admits(start + WINDOW), Some(Admitted { left_out: Some(995) }));
    assert_eq!(rate.admits(start + WINDOW), Some(Admitted { left_out: None }));
}
