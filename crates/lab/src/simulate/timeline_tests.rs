use super::*;

#[test]
fn a_fair_share_counts_from_the_second_in_which_it_is_reached() {
    let mut timeline = Timeline::new(2);
    for step in 0..60 {
        for call in 0..10 {
            let server = usize::from(step >= 30 && call < 5);
            timeline.note(step * STEP_NS + call, server);
        }
    }
    assert_eq!(timeline.shares(1)[29], 0.0);
    assert_eq!(timeline.shares(1)[30], 0.5);
    let waited_s = timeline.reaches(1, 1.0, 0.5).expect("reached");
    assert!((waited_s - 2.0).abs() < 1e-9, "{waited_s}");
    assert_eq!(timeline.reaches(1, 1.0, 0.6), None);
}
