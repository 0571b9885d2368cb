use super::*;

#[test]
fn accounts_take_turns_however_much_each_has() {
    let mut turns = Turns::new(8);
    for work in 0..5 {
        turns.push("flood", work).expect("there is room");
    }
    turns.push("pod", 100).expect("there is room");
    let taken: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
    assert_eq!(taken, [0, 100, 1, 2, 3, 4]);
    assert!(turns.is_empty() && turns.order.is_empty() && turns.accounts.is_empty());
}

#[test]
fn the_account_with_the_most_work_makes_room_and_gets_none_itself() {
    let mut turns = Turns::new(3);
    for work in 0..3 {
        turns.push("flood", work).expect("there is room");
    }
    assert_eq!(turns.push("flood", 3), Err(Full));
    turns.push("pod", 100).expect("what the flood added last is dropped");
    assert_eq!(turns.push("pod", 101), Err(Full), "never more than an equal share");
    assert_eq!(turns.len(), 3);
    assert_eq!([turns.pop(), turns.pop(), turns.pop(), turns.pop()], [Some(0), Some(100), Some(1), None]);
}

#[test]
fn removed_work_leaves_its_room_and_the_turn_of_its_account() {
    let mut turns = Turns::new(4);
    let mut push = |account, work| turns.push(account, work).expect("there is room");
    let tickets = [push("a", 0), push("a", 1), push("b", 10), push("c", 20)];
    assert_eq!(turns.push("a", 2), Err(Full));
    assert_eq!(turns.remove(&"a", tickets[1]), Some(1));
    assert_eq!(turns.remove(&"a", tickets[1]), None, "it is gone");
    assert_eq!(turns.remove(&"a", tickets[2]), None, "it belongs to another account");
    assert_eq!(turns.remove(&"b", tickets[2]), Some(10));
    // `b` had only one piece of work. When that piece was removed, `b` lost its turn, so new work puts `b` last.
    turns.push("b", 11).expect("there is room");
    assert_eq!(std::iter::from_fn(|| turns.pop()).collect::<Vec<_>>(), [0, 20, 11]);
    assert_eq!(turns.remove(&"a", tickets[0]), None, "it was served");
}

#[test]
fn no_sequence_of_steps_loses_count() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let mut turns: Turns<u8, u32> = Turns::new(16);
    let mut tickets = Vec::new();
    for work in 0..20_000 {
        match random.u8(..4) {
            0 => {
                let was_empty = turns.is_empty();
                assert_eq!(turns.pop().is_none(), was_empty);
            }
            1 if !tickets.is_empty() => {
                let (account, ticket, work) = tickets.swap_remove(random.usize(..tickets.len()));
                assert!(turns.remove(&account, ticket).is_none_or(|removed| removed == work));
            }
            _ => {
                let account = random.u8(..6);
                tickets.extend(turns.push(account, work).map(|ticket| (account, ticket, work)));
            }
        }
        let waiting: usize = turns.accounts.values().map(|account| account.work.len()).sum();
        assert!(turns.len() == waiting && waiting <= 16 && turns.order.len() == turns.accounts.len());
        assert!(turns.order.iter().all(|(turn, account)| turns.accounts[account].turn == *turn));
        assert!(turns.accounts.values().all(|account| !account.work.is_empty()));
    }
}
