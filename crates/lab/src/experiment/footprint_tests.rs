use super::*;
use crate::experiment::record::TargetKind;
use crate::report::example;
use crate::report::figures::millicores;

#[test]
fn failed_calls_of_the_second_phase_are_counted_with_their_first_reason() {
    let run = example::run(TargetKind::Leno, 0, 1);
    assert_eq!(with_second_phase(run.clone(), 0, None), run);
    let failing = with_second_phase(run.clone(), 7, Some("connection reset".to_owned()));
    assert_eq!((failing.errors, failing.first_error.as_deref()), (7, Some("in the second phase: connection reset")));
    assert_eq!(failing.error_classes.get(SECOND_PHASE), Some(&7));
    // The CPU time belongs to the first load.
    assert_eq!(millicores(&failing), millicores(&run));
    let both = Run { errors: 1, first_error: Some("UNAVAILABLE".to_owned()), ..run };
    let both = with_second_phase(both, 7, Some("connection reset".to_owned()));
    assert_eq!((both.errors, both.first_error.as_deref()), (8, Some("UNAVAILABLE")));
}
