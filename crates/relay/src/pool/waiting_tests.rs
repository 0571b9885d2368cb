use super::*;

fn call(number: u32) -> AttemptId {
    AttemptId::numbered(number)
}

/// Returns the call with the number `number`, which joined the queue at the position `number`.
fn waits(number: u32) -> Option<(Turn, AttemptId)> {
    Some((Turn(number.into()), call(number)))
}

#[test]
fn calls_leave_in_the_order_in_which_they_came() {
    let mut waiting = Waiting::default();
    for number in 0..5 {
        waiting.join(Turn(number.into()), call(number), number == 1 || number == 3);
    }
    assert_eq!((waiting.first(), waiting.first_small()), (waits(0), waits(1)));
    waiting.leave(Turn(0));
    assert_eq!(waiting.first(), waits(1), "a small one that came before the others");
    waiting.leave(Turn(1));
    waiting.leave(Turn(1));
    assert_eq!((waiting.first(), waiting.first_small(), waiting.len()), (waits(2), waits(3), 3));
    assert_eq!(waiting.into_attempts().collect::<Vec<_>>(), [call(2), call(3), call(4)]);
}

#[test]
fn a_call_whose_request_ends_is_small_and_keeps_its_turn() {
    let mut waiting = Waiting::default();
    let first = Turn(1);
    waiting.join(first, call(1), false);
    waiting.join(Turn(2), call(2), true);
    assert_eq!(waiting.first_small(), waits(2));
    waiting.note_small(first);
    assert_eq!((waiting.first_small(), waiting.first(), waiting.len()), (waits(1), waits(1), 2));
    waiting.leave(first);
    waiting.note_small(first);
    assert_eq!((waiting.first(), waiting.len()), (waits(2), 1), "who has left does not come back");
}
