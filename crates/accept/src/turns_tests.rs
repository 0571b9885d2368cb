use super::*;

#[test]
fn accounts_take_turns_however_much_each_has() {
    let mut turns = Turns::new(8);
    for work in 0..5 {
        assert_eq!(turns.push("flood", work), Ok(()));
    }
    assert_eq!(turns.push("pod", 100), Ok(()));
    let taken: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
    assert_eq!(taken, [0, 100, 1, 2, 3, 4]);
    assert!(turns.is_empty() && turns.order.is_empty() && turns.waiting.is_empty());
}

#[test]
fn the_account_with_the_most_work_makes_room_and_gets_none_itself() {
    let mut turns = Turns::new(3);
    for work in 0..3 {
        assert_eq!(turns.push("flood", work), Ok(()));
    }
    assert_eq!(turns.push("flood", 3), Err(Full));
    assert_eq!(turns.push("pod", 100), Ok(()), "what the flood added last is dropped");
    assert_eq!(turns.push("pod", 101), Err(Full), "never more than an equal share");
    assert_eq!(turns.len(), 3);
    assert_eq!([turns.pop(), turns.pop(), turns.pop(), turns.pop()], [Some(0), Some(100), Some(1), None]);
}

#[test]
fn no_sequence_of_steps_loses_count() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let mut turns: Turns<u8, u32> = Turns::new(16);
    for work in 0..20_000 {
        match random.u8(..3) {
            0 => {
                let was_empty = turns.is_empty();
                assert_eq!(turns.pop().is_none(), was_empty);
            }
            _ => drop(turns.push(random.u8(..6), work)),
        }
        let waiting: usize = turns.waiting.values().map(VecDeque::len).sum();
        assert!(turns.len() == waiting && waiting <= 16 && turns.order.len() == turns.waiting.len());
        assert!(turns.waiting.values().all(|waiting| !waiting.is_empty()));
    }
}
