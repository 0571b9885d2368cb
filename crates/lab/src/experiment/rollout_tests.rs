use super::*;

#[test]
fn each_half_has_its_own_calls_and_losses() {
    let slice = |calls, failed| Slice { calls: vec![calls, 2 * calls], failed };
    let timeline = [slice(1, 0), slice(10, 3), slice(100, 40), slice(1000, 500)];
    let Rollout { graceful, abrupt } = halves(&timeline, 2, [5, 4]);
    assert_eq!(graceful, Restarts { restarts: 5, calls: 33, lost: 3 });
    assert_eq!(abrupt, Restarts { restarts: 4, calls: 3300, lost: 540 });
    assert_eq!(halves(&timeline[..1], 2, [5, 5]).abrupt.calls, 0);
}
