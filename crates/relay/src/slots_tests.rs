use super::{Id, MAX_SERIAL, Slots};

#[test]
fn the_id_of_a_removed_entry_does_not_find_the_entry_that_has_its_place() {
    let mut slots = Slots::default();
    let first = slots.insert("first");
    assert_eq!(slots.remove(first), Some("first"));
    let second = slots.insert("second");
    assert_eq!((first.place(), slots.len()), (second.place(), 1));
    assert_eq!((slots.get(first), slots.get(second)), (None, Some(&"second")));
    assert_eq!(slots.get_mut(first), None);
    assert_eq!(slots.remove(first), None);
    assert_eq!(slots.at_mut(first.place()), Some((second, &mut "second")));
}

#[test]
fn serial_numbers_begin_again_after_the_last() {
    let mut slots = Slots { next: MAX_SERIAL.try_into().expect("it is not 0"), ..Slots::default() };
    let last = slots.insert(());
    slots.remove(last);
    let first = slots.insert(());
    assert_eq!((last.serial.get(), first.serial.get()), (MAX_SERIAL, 1));
    assert!(!slots.contains(last) && slots.contains(first));
}

#[test]
fn an_id_and_its_number_are_the_same() {
    let mut slots = Slots::default();
    for n in 0..1_000 {
        let id = slots.insert(n);
        assert_eq!(Id::of_bits(id.to_bits()), Some(id));
        assert!(id.to_bits() < 1 << 61);
    }
    assert_eq!(Id::<u32>::of_bits(5 << 29), None, "serial numbers are not 0");
    assert_eq!(Id::<u32>::of_bits(1 << 61 | 1), None, "places have 32 bits");
}

#[test]
fn no_id_finds_nothing() {
    let mut slots = Slots::default();
    slots.insert(1);
    assert_eq!(slots.get(None), None);
}

#[test]
fn memory_of_many_entries_is_given_back_and_places_stay() {
    let mut slots = Slots::default();
    let ids: Vec<_> = (0..100).map(|n| slots.insert(n)).collect();
    for &id in ids.iter().filter(|id| id.place() != 40 && id.place() != 7) {
        slots.discard(id);
        slots.discard(id);
    }
    slots.shrink_to_fit();
    assert_eq!((slots.len(), slots.entries.len(), slots.free.len()), (2, 41, 39));
    assert_eq!(slots.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [7, 40]);
    let more: Vec<_> = (0..40).map(|n| slots.insert(n)).collect();
    assert!(more.iter().all(|id| !ids.contains(id)), "no id of an entry that was removed");
    let mut places: Vec<_> = slots.iter().map(|(id, _)| id.place()).collect();
    places.dedup();
    assert_eq!((slots.len(), places.len(), slots.entries.len()), (42, 42, 42));
    slots.remove(ids[40]);
    assert_eq!((slots.remove(ids[40]), slots.len()), (None, 41));
}
