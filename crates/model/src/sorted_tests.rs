use std::collections::BTreeSet;
use std::sync::Arc;

use super::{BLOCK_MAX, SortedList};

fn set(list: &mut SortedList<u32>, value: u32) -> Option<u32> {
    list.set(|element| element.cmp(&value), Some(value))
}

fn unset(list: &mut SortedList<u32>, value: u32) -> Option<u32> {
    list.set(|element| element.cmp(&value), None)
}

fn check(list: &SortedList<u32>, expected: &BTreeSet<u32>) {
    assert!(list.iter().eq(expected));
    assert!(list.into_iter().eq(expected));
    assert_eq!((list.len(), list.is_empty()), (expected.len(), expected.is_empty()));
    assert!(list.blocks.iter().all(|block| (1..=BLOCK_MAX).contains(&block.len())));
    let small = |pair: &[Arc<Vec<u32>>]| pair[0].len() + pair[1].len() <= BLOCK_MAX / 2;
    assert!(!list.blocks.windows(2).any(small), "neighbours that are small");
}

#[test]
fn it_holds_what_a_set_holds_after_any_changes() {
    let mut rng = fastrand::Rng::with_seed(leno_testing::seed());
    let mut random = |limit: u32| rng.u32(..limit);
    for _ in 0..20 {
        let first: BTreeSet<u32> = (0..random(500)).map(|_| random(1_000)).collect();
        let mut list = SortedList::of_sorted(first.iter().copied().collect());
        let mut expected = first;
        for _ in 0..2_000 {
            let value = random(1_000);
            if random(2) == 0 {
                assert_eq!(set(&mut list, value), expected.replace(value));
            } else {
                assert_eq!(unset(&mut list, value), expected.take(&value));
            }
            assert_eq!(list.find(|element| element.cmp(&value)), expected.get(&value));
            assert!(list.from(|element| *element < value).eq(expected.range(value..)));
        }
        check(&list, &expected);
        while let Some(value) = expected.pop_first() {
            assert_eq!(unset(&mut list, value), Some(value));
            assert_eq!(list.len(), expected.len());
        }
        check(&list, &expected);
    }
}

#[test]
fn a_copy_is_not_changed_with_the_list_and_shares_all_blocks_but_one() {
    let mut list = SortedList::of_sorted((0..10_000).map(|number| 2 * number).collect());
    let copy = list.clone();
    set(&mut list, 5_001);
    assert_eq!((list.len(), copy.len()), (10_001, 10_000));
    assert_eq!(copy.find(|element| element.cmp(&5_001)), None);
    let shared = |block: &Arc<Vec<u32>>| copy.blocks.iter().any(|other| Arc::ptr_eq(block, other));
    assert!(list.blocks.iter().filter(|block| !shared(block)).count() <= 2);
}
