use super::*;
use crate::fields::{Defects, Facts, Known};

fn table() -> DynamicTable {
    DynamicTable::new(4096)
}

/// Inserts a field with a given hash. Returns whether there was a free slot.
fn insert(index: &mut Index, table: &mut DynamicTable, hash: u32, text: &[u8]) -> bool {
    let place = index.add(table, hash);
    if place {
        table.insert(text, 1, Facts { hash, known: Known::Other, defects: Defects::NONE });
    }
    place
}

#[test]
fn inserted_fields_are_found_at_their_age() {
    let (mut index, mut table) = (Index::default(), table());
    assert!(insert(&mut index, &mut table, 7, b"a1"));
    assert!(insert(&mut index, &mut table, 9, b"b2"));
    assert_eq!(index.find(&table, 7, b"a1", 1), Some(1));
    assert_eq!(index.find(&table, 9, b"b2", 1), Some(0));
}

#[test]
fn equal_hash_of_other_bytes_is_a_miss() {
    let (mut index, mut table) = (Index::default(), table());
    insert(&mut index, &mut table, 7, b"a1");
    assert_eq!(index.find(&table, 7, b"a2", 1), None);
    // The same bytes, split differently into name and value.
    assert_eq!(index.find(&table, 7, b"a1", 2), None);
}

#[test]
fn colliding_fields_fill_one_set_and_the_next_is_not_added() {
    let (mut index, mut table) = (Index::default(), table());
    for value in 0..WAYS as u8 {
        assert!(insert(&mut index, &mut table, 7, &[b'a', value]));
    }
    assert!(!insert(&mut index, &mut table, 7, b"ax"));
    assert_eq!(index.find(&table, 7, &[b'a', 0], 1), Some(WAYS - 1));
    assert!(insert(&mut index, &mut table, 8, b"ax"));
}

#[test]
fn places_of_evicted_entries_are_used_again() {
    let (mut index, mut table) = (Index::default(), DynamicTable::new(3 * 34));
    // The insertion numbers wrap around three times.
    for round in 0..200_000u32 {
        let text = [b'a', round as u8];
        assert!(insert(&mut index, &mut table, round % 5, &text), "round {round}");
        assert_eq!(index.find(&table, round % 5, &text, 1), Some(0));
    }
    assert_eq!(table.len(), 3);
    assert_eq!(index.find(&table, 199_996 % 5, &[b'a', 199_996u32 as u8], 1), None);
}

#[test]
fn a_field_is_seen_twice_and_then_forgotten() {
    let mut index = Index::default();
    let sights: Vec<_> = (0..4).map(|_| index.is_second_sight(0x1234_5678)).collect();
    assert_eq!(sights, [false, true, false, true]);
}

/// Hashes that all select the same set of `Index::seen`.
fn of_one_set(count: usize) -> Vec<u32> {
    (1..=count as u32).map(|number| number << 17).collect()
}

#[test]
fn fields_of_one_set_that_take_turns_are_all_seen_twice() {
    let mut index = Index::default();
    let hashes = of_one_set(SEEN_WAYS);
    let mut sights = || hashes.iter().map(|hash| index.is_second_sight(*hash)).collect::<Vec<_>>();
    assert_eq!([sights(), sights(), sights()], [[false; SEEN_WAYS], [true; SEEN_WAYS], [false; SEEN_WAYS]]);
}

#[test]
fn a_field_of_a_full_set_replaces_the_one_that_was_seen_longest_ago() {
    let mut index = Index::default();
    for hash in of_one_set(SEEN_WAYS + 1) {
        assert!(!index.is_second_sight(hash));
    }
    let [oldest, others @ ..] = &of_one_set(SEEN_WAYS + 1)[..] else { panic!("there are several") };
    assert!(others.iter().all(|hash| index.is_second_sight(*hash)));
    assert!(!index.is_second_sight(*oldest));
}

#[test]
fn names_are_found_at_the_age_of_their_newest_entry() {
    let (mut index, mut table) = (Index::default(), table());
    assert_eq!(index.find_name(&table, b"a"), None);
    for (hash, text) in [(7, b"a1"), (8, b"b1"), (9, b"a2")] {
        assert!(insert(&mut index, &mut table, hash, text));
        index.add_name(&table, &text[..1]);
    }
    assert_eq!(index.find_name(&table, b"a"), Some(0));
    assert_eq!(index.find_name(&table, b"b"), Some(1));
    assert_eq!(index.names.iter().filter(|name| name.number != 0).count(), 2);
}

#[test]
fn equal_tag_of_another_name_is_a_miss() {
    let (mut index, mut table) = (Index::default(), table());
    assert!(insert(&mut index, &mut table, 7, b"a1"));
    index.add_name(&table, b"b");
    assert_eq!(index.find_name(&table, b"b"), None);
}

#[test]
fn names_take_places_until_their_entries_are_evicted() {
    let (mut index, mut table) = (Index::default(), DynamicTable::new(NAMES * 34));
    for name in 0..NAMES as u8 {
        assert!(index.has_free_name(&table));
        assert!(insert(&mut index, &mut table, name.into(), &[name, b'1']));
        index.add_name(&table, &[name]);
    }
    assert!(!index.has_free_name(&table));
    // Evicts the first name's entry.
    assert!(insert(&mut index, &mut table, 100, b"x1"));
    assert_eq!(index.find_name(&table, &[0]), None);
    assert_eq!(index.find_name(&table, &[1]), Some(NAMES - 1));
    assert!(index.has_free_name(&table));
    index.add_name(&table, b"x");
    assert_eq!(index.find_name(&table, b"x"), Some(0));
    assert!(!index.has_free_name(&table));
}
