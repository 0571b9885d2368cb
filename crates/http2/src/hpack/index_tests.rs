use super::*;
use crate::fields::{Defects, Facts, Known};

fn table() -> DynamicTable {
    DynamicTable::new(4096)
}

/// Inserts a field with a given hash. Returns whether there was a free place.
fn insert(index: &mut Index, table: &mut DynamicTable, hash: u32, text: &[u8]) -> bool {
    let place = index.add(table, hash);
    if place {
        table.insert(text, 1, Facts { hash, known: Known::Other, defects: Defects::NONE });
    }
    place
}

#[test]
fn inserted_fields_are_found_at_their_age() {
    let (mut index, mut table) = (Index::new(), table());
    assert!(insert(&mut index, &mut table, 7, b"a1"));
    assert!(insert(&mut index, &mut table, 9, b"b2"));
    assert_eq!(index.find(&table, 7, b"a1", 1), Some(1));
    assert_eq!(index.find(&table, 9, b"b2", 1), Some(0));
}

#[test]
fn equal_hash_of_other_bytes_is_a_miss() {
    let (mut index, mut table) = (Index::new(), table());
    insert(&mut index, &mut table, 7, b"a1");
    assert_eq!(index.find(&table, 7, b"a2", 1), None);
    // The same bytes, split differently into name and value.
    assert_eq!(index.find(&table, 7, b"a1", 2), None);
}

#[test]
fn colliding_fields_fill_one_set_and_the_next_is_not_added() {
    let (mut index, mut table) = (Index::new(), table());
    for value in 0..WAYS as u8 {
        assert!(insert(&mut index, &mut table, 7, &[b'a', value]));
    }
    assert!(!insert(&mut index, &mut table, 7, b"ax"));
    assert_eq!(index.find(&table, 7, &[b'a', 0], 1), Some(WAYS - 1));
    assert!(insert(&mut index, &mut table, 8, b"ax"));
}

#[test]
fn places_of_evicted_entries_are_used_again() {
    let (mut index, mut table) = (Index::new(), DynamicTable::new(3 * 34));
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
    let mut index = Index::new();
    let sights: Vec<_> = (0..4).map(|_| index.is_second_sight(0x1234_5678)).collect();
    assert_eq!(sights, [false, true, false, true]);
}

#[test]
fn a_later_field_takes_the_place_of_one_seen_once() {
    let mut index = Index::new();
    assert!(!index.is_second_sight(0x0001_0000));
    assert!(!index.is_second_sight(0x0003_0000));
    assert!(!index.is_second_sight(0x0001_0000));
}
