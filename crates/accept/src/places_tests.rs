use std::time::Duration;

use super::*;

const ATTACKER: u8 = 1;
const KUBELET: u8 = 2;

/// Enters `count` connections of one account, with keys from `first` on.
fn fill<G: Clone + Ord + Hash>(places: &mut Places<u8, u32, G>, account: u8, first: u32, count: u32) {
    for key in first..first + count {
        assert_eq!(places.enter(account, key), Entry::Free);
    }
}

#[test]
fn while_places_are_free_one_account_may_take_them_all() {
    let mut places = Places::new(4);
    fill(&mut places, ATTACKER, 0, 4);
    assert_eq!((places.held_by(&ATTACKER), places.most()), (4, Some(&ATTACKER)));
}

#[test]
fn a_newcomer_takes_the_place_of_the_oldest_silent_connection_of_the_account_with_the_most() {
    let mut places = Places::new(4);
    fill(&mut places, KUBELET, 0, 1);
    fill(&mut places, ATTACKER, 10, 3);
    assert_eq!(places.enter(KUBELET, 1), Entry::Replaces(10));
    assert_eq!((places.held_by(&ATTACKER), places.held_by(&KUBELET), places.len()), (2, 2, 4));
}

#[test]
fn a_newcomer_of_the_same_address_takes_the_place_of_the_oldest_silent_one() {
    let mut places = Places::new(3);
    fill(&mut places, ATTACKER, 0, 3);
    places.settle(0);
    assert_eq!(places.enter(ATTACKER, 3), Entry::Replaces(1), "the one that spoke stays");
}

#[test]
fn a_connection_is_as_old_as_if_it_had_entered_when_it_could() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut places = Places::new(2);
    for (key, since) in [(0, at(10)), (1, at(20))] {
        assert_eq!(places.enter_as_since(ATTACKER, key, since), Entry::Free);
    }
    assert_eq!(places.enter_as_since(ATTACKER, 30, at(33)), Entry::Replaces(0));
    assert_eq!(places.enter_as_since(ATTACKER, 10, at(31)), Entry::Replaces(1), "a waiting one replaces no other yet");
    assert_eq!(places.enter_as_since(ATTACKER, 20, at(32)), Entry::Replaces(10), "the one from 33 ms stays");
    assert_eq!(places.enter_as_since(ATTACKER, 40, at(40)), Entry::Replaces(20));
    assert_eq!(places.enter_as_since(ATTACKER, 50, at(50)), Entry::Replaces(30));
}

#[test]
fn without_silent_connections_the_account_with_the_most_yields_its_oldest() {
    let mut places = Places::new(4);
    fill(&mut places, ATTACKER, 0, 4);
    (0..4).for_each(|key| places.settle(key));
    assert_eq!(places.enter(KUBELET, 9), Entry::Replaces(0));
    places.settle(9);
    assert_eq!(places.enter(KUBELET, 10), Entry::Replaces(1), "two each");
    places.settle(10);
    assert_eq!(places.enter(KUBELET, 11), Entry::Full, "an account never takes more than an equal share");
}

#[test]
fn of_accounts_with_equally_many_silent_connections_the_oldest_connection_yields() {
    let mut places = Places::new(3);
    for (account, key) in [(ATTACKER, 0), (KUBELET, 1), (7, 2)] {
        assert_eq!(places.enter(account, key), Entry::Free);
    }
    // The attacker's connections come from different addresses, so each new connection replaces the oldest of all. The
    // kubelet's connection is never closed early because of its address.
    let yielded = [8, 9, 10].map(|account| places.enter(account, u32::from(account)));
    assert_eq!(yielded, [0, 1, 2].map(Entry::Replaces));
}

#[test]
fn an_account_that_holds_the_most_is_turned_away_and_takes_nothing_from_others() {
    let mut places = Places::new(4);
    fill(&mut places, ATTACKER, 0, 3);
    fill(&mut places, KUBELET, 9, 1);
    [0, 1, 2, 9].into_iter().for_each(|key| places.settle(key));
    assert_eq!(places.enter(ATTACKER, 3), Entry::Full);
    assert_eq!(places.len(), 4);
}

#[test]
fn a_place_is_free_again_when_its_connection_has_left() {
    let mut places = Places::new(1);
    fill(&mut places, ATTACKER, 0, 1);
    places.settle(0);
    places.leave(0);
    places.leave(0);
    assert!(places.is_empty());
    assert_eq!(places.enter(KUBELET, 1), Entry::Free);
}

#[test]
fn no_sequence_of_steps_breaks_the_bound_or_leaves_anything_behind() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let mut places: Places<u8, u32> = Places::new(8);
    let mut inside: Vec<u32> = Vec::new();
    for key in 0..20_000 {
        match random.u8(..4) {
            0 if !inside.is_empty() => places.leave(inside.swap_remove(random.usize(..inside.len()))),
            1 if !inside.is_empty() => places.settle(inside[random.usize(..inside.len())]),
            _ => match places.enter(random.u8(..5), key) {
                Entry::Free => inside.push(key),
                Entry::Replaces(victim) => {
                    inside.retain(|&other| other != victim);
                    inside.push(key);
                }
                Entry::Full => assert_eq!(inside.len(), 8),
            },
        }
        assert_eq!(places.len(), inside.len());
        assert!(inside.len() <= 8);
    }
    inside.into_iter().for_each(|key| places.leave(key));
    assert!(places.accounts.is_empty() && places.groups.is_empty());
    assert!(places.largest.is_empty() && places.largest_silent.is_empty());
}

/// The group of an account of this test: its tens.
fn tens(account: &u8) -> u8 {
    account / 10 * 10
}

#[test]
fn accounts_of_the_largest_group_yield_to_another_group() {
    let mut places = Places::grouped(4, tens);
    for (account, key) in [(10, 0), (11, 1), (11, 2), (12, 3)] {
        fill(&mut places, account, key, 1);
        places.settle(key);
    }
    assert_eq!(places.most(), Some(&11));
    assert_eq!(places.enter(20, 4), Entry::Replaces(1), "the account with the most yields");
    places.settle(4);
    assert_eq!(places.enter(21, 5), Entry::Replaces(0), "then the one with the oldest connection");
    places.settle(5);
    assert_eq!(places.enter(22, 6), Entry::Full, "the groups have equal parts");
    assert_eq!(places.enter(13, 6), Entry::Full);
}

#[test]
fn accounts_of_one_group_share_its_part() {
    let mut places = Places::grouped(4, tens);
    fill(&mut places, 10, 0, 4);
    (0..4).for_each(|key| places.settle(key));
    assert_eq!(places.enter(11, 4), Entry::Replaces(0));
    places.settle(4);
    assert_eq!(places.enter(11, 5), Entry::Replaces(1));
    places.settle(5);
    assert_eq!(places.enter(11, 6), Entry::Full);
}

/// Each connection of the control plane is silent for a moment: from its handshake to its first request.
#[test]
fn a_group_with_many_accounts_does_not_take_the_places_of_silent_connections_of_another_group() {
    let mut places = Places::grouped(4, tens);
    for (account, key) in [(10, 0), (11, 1), (12, 2), (13, 3)] {
        fill(&mut places, account, key, 1);
        places.settle(key);
    }
    assert_eq!(places.enter(20, 4), Entry::Replaces(0));
    assert_eq!(places.enter(14, 5), Entry::Full, "the only silent connection belongs to a smaller group");
    assert_eq!(places.enter(21, 5), Entry::Replaces(1), "the group gets its equal part");
    assert_eq!(places.enter(14, 6), Entry::Full);
    assert_eq!(places.enter(22, 6), Entry::Replaces(4), "the group has its equal part, and a silent connection");
}

#[test]
fn a_silent_connection_of_the_largest_group_yields_first() {
    let mut places = Places::grouped(4, tens);
    for (account, key) in [(10, 0), (11, 1), (12, 2), (20, 3)] {
        fill(&mut places, account, key, 1);
    }
    [0, 2].into_iter().for_each(|key| places.settle(key));
    assert_eq!(places.enter(30, 4), Entry::Replaces(1));
}

#[test]
fn no_sequence_of_steps_takes_the_equal_part_of_a_group() {
    const CAPACITY: usize = 12;
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let mut places: Places<u8, u32, u8> = Places::grouped(CAPACITY, tens);
    let mut inside: Vec<(u32, u8)> = Vec::new();
    for key in 0..50_000 {
        if random.u8(..4) == 0 && !inside.is_empty() {
            let place = random.usize(..inside.len());
            if random.bool() {
                places.settle(inside[place].0);
            } else {
                places.leave(inside.swap_remove(place).0);
            }
            continue;
        }
        // One group has ten accounts, the others have one.
        let account = if random.bool() { random.u8(..10) } else { 10 * random.u8(1..4) };
        let held = |inside: &[(u32, u8)], group: u8| inside.iter().filter(|(_, other)| tens(other) == group).count();
        let own = tens(&account);
        let mut groups: Vec<u8> = inside.iter().map(|(_, other)| tens(other)).chain([own]).collect();
        groups.sort_unstable();
        groups.dedup();
        match places.enter(account, key) {
            Entry::Free => {}
            Entry::Replaces(victim) => {
                let at = inside.iter().position(|(other, _)| *other == victim).expect("it has a place");
                let loser = tens(&inside[at].1);
                assert!(loser == own || held(&inside, loser) * groups.len() > CAPACITY, "a group keeps its part");
                inside.swap_remove(at);
            }
            Entry::Full => {
                assert!((held(&inside, own) + 1) * groups.len() > CAPACITY, "a group gets its part");
                continue;
            }
        }
        // Some connections stay silent.
        if random.bool() {
            places.settle(key);
        }
        inside.push((key, account));
        assert_eq!(places.len(), inside.len());
    }
}
