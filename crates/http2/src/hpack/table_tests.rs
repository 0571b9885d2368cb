use super::*;
use crate::hpack::testing::entries_of;

fn insert(table: &mut DynamicTable, name: &[u8], value: &[u8]) {
    let text = [name, value].concat();
    let facts = Facts::of_field(Facts::of_name(name), &text, name.len());
    table.insert(&text, name.len(), facts);
}

#[test]
fn empty_table_holds_no_memory() {
    let table = DynamicTable::new(4096);
    assert_eq!(table.memory_bytes(), 0);
    assert!(table.get(0).is_none());
}

#[test]
fn oldest_entries_are_evicted_when_a_new_one_needs_room() {
    let mut table = DynamicTable::new(3 * 34);
    for name in [b"a", b"b", b"c", b"d"] {
        insert(&mut table, name, b"1");
    }
    let names: Vec<_> = entries_of(&table).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [b"d", b"c", b"b"]);
}

#[test]
fn entry_that_exactly_fits_evicts_all_others_and_stays() {
    let mut table = DynamicTable::new(100);
    insert(&mut table, b"a", b"1");
    insert(&mut table, b"b", &[b'x'; 67]);
    assert_eq!(entries_of(&table), [(b"b".to_vec(), vec![b'x'; 67])]);
}

#[test]
fn entry_larger_than_the_table_empties_it() {
    let mut table = DynamicTable::new(100);
    insert(&mut table, b"a", b"1");
    insert(&mut table, b"b", &[b'x'; 68]);
    assert_eq!(table.len(), 0);
    insert(&mut table, b"c", b"1");
    assert_eq!(entries_of(&table), [(b"c".to_vec(), b"1".to_vec())]);
}

#[test]
fn entries_keep_what_was_found_about_them() {
    let mut table = DynamicTable::new(4096);
    insert(&mut table, b"te", b"gzip");
    let field = table.get(0).expect("the entry");
    assert_eq!(field.facts, Facts::of_field(Facts::of_name(b"te"), b"tegzip", 2));
}

#[test]
fn shrinking_evicts_and_gives_memory_back() {
    let mut table = DynamicTable::new(MAX_TABLE_SIZE);
    for number in 0..1000 {
        insert(&mut table, b"name", format!("{number:028}").as_bytes());
    }
    assert_eq!(table.len(), 1000);
    table.set_max_size(128);
    assert_eq!(entries_of(&table).len(), 2);
    assert_eq!(entries_of(&table)[0].1, format!("{:028}", 999).as_bytes());
    assert!(table.memory_bytes() < 256, "{}", table.memory_bytes());
    table.set_max_size(0);
    assert_eq!((table.len(), table.memory_bytes()), (0, 0));
}

#[test]
fn growing_keeps_the_entries() {
    let mut table = DynamicTable::new(64);
    insert(&mut table, b"a", b"1");
    table.set_max_size(4096);
    insert(&mut table, b"b", b"2");
    assert_eq!(entries_of(&table).len(), 2);
}

#[test]
fn evicted_bytes_are_dropped_before_more_memory_is_taken() {
    let mut table = DynamicTable::new(4096);
    for number in 0..10_000u16 {
        insert(&mut table, b"n", &number.to_be_bytes());
    }
    assert_eq!(table.len(), 4096 / 35);
    assert!(table.bytes.capacity() <= 1024, "{} bytes for {}", table.bytes.capacity(), 3 * table.len());
}

#[test]
fn sizes_above_the_supported_maximum_are_cut() {
    assert_eq!(DynamicTable::new(usize::MAX).max_size(), MAX_TABLE_SIZE);
}

#[test]
fn largest_entry_of_the_largest_table_is_kept_whole() {
    let mut table = DynamicTable::new(MAX_TABLE_SIZE);
    let value = vec![b'v'; MAX_TABLE_SIZE - LINE_OVERHEAD - 1];
    for _ in 0..3 {
        insert(&mut table, b"n", &value);
        assert_eq!(entries_of(&table), [(b"n".to_vec(), value.clone())]);
    }
    assert!(table.memory_bytes() <= MAX_TABLE_SIZE + 256, "{}", table.memory_bytes());
}

#[test]
fn random_insertions_and_sizes_match_a_plain_model_within_bounded_memory() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for _ in 0..20 {
        let mut max_size = random.usize(..5000);
        let mut table = DynamicTable::new(max_size);
        let mut model: VecDeque<(Vec<u8>, Vec<u8>)> = VecDeque::new();
        for _ in 0..500 {
            if random.u8(..) == 0 {
                max_size = random.usize(..5000);
                table.set_max_size(max_size);
            } else {
                let name = vec![random.alphanumeric() as u8; random.usize(..20)];
                let longest = if random.u8(..) < 8 { 4000 } else { 60 };
                let value = vec![random.alphanumeric() as u8; random.usize(..longest)];
                insert(&mut table, &name, &value);
                model.push_front((name, value));
            }
            while model.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>() > max_size {
                model.pop_back();
            }
            assert_eq!(model, entries_of(&table));
            let most_entries = 5000 / LINE_OVERHEAD;
            let limit = 5000 + most_entries.next_power_of_two() * size_of::<Entry>();
            assert!(table.memory_bytes() <= limit, "{}", table.memory_bytes());
        }
    }
}
