use super::*;
use crate::fields::{Defects, Known};
use crate::hpack::DEFAULT_TABLE_SIZE;
use crate::hpack::testing::{decode, entries_of, hex, pairs, pairs_of};

fn error_of(block: &[u8]) -> Option<DecodeError> {
    decode(&mut Decoder::new(DEFAULT_TABLE_SIZE), block).err()
}

/// Encodes a literal with incremental indexing and raw strings. The name is shorter than 127 bytes; the value has any
/// length.
fn inserted(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut block = vec![0x40];
    integer::encode(name.len(), 7, 0, &mut block);
    block.extend_from_slice(name);
    integer::encode(value.len(), 7, 0, &mut block);
    block.extend_from_slice(value);
    block
}

#[test]
fn empty_block_is_an_empty_section() {
    assert_eq!(error_of(&[]), None);
}

#[test]
fn index_zero_is_an_error() {
    assert_eq!(error_of(&[0x80]), Some(DecodeError::InvalidIndex(0)));
}

#[test]
fn index_beyond_both_tables_is_an_error_in_every_representation() {
    assert_eq!(error_of(&[0xbe]), Some(DecodeError::InvalidIndex(62)));
    assert_eq!(error_of(&hex("7e 01 61")), Some(DecodeError::InvalidIndex(62)));
    assert_eq!(error_of(&hex("0f 2f 01 61")), Some(DecodeError::InvalidIndex(62)));
    assert_eq!(error_of(&hex("1f 2f 01 61")), Some(DecodeError::InvalidIndex(62)));
    assert_eq!(error_of(&hex("ff ff ff ff ff 0e")), Some(DecodeError::InvalidIndex(0xf000_007e)));
}

#[test]
fn evicted_index_is_an_error() {
    let mut decoder = Decoder::new(64);
    decode(&mut decoder, &inserted(b"a", b"1")).expect("a valid block");
    decode(&mut decoder, &[0xbe]).expect("the entry is there");
    decode(&mut decoder, &inserted(b"a", &[b'x'; 40])).expect("a valid block that empties the table");
    assert_eq!(decode(&mut decoder, &[0xbe]).err(), Some(DecodeError::InvalidIndex(62)));
}

#[test]
fn every_proper_prefix_of_a_literal_is_truncated() {
    let block = hex("40 88 25a8 49e9 5ba9 7d7f 89 25a8 49e9 5bb8 e8b4 bf");
    assert_eq!(error_of(&block), None);
    for len in 1..block.len() {
        assert_eq!(error_of(&block[..len]), Some(DecodeError::Truncated), "{len} bytes");
    }
}

#[test]
fn string_longer_than_the_block_is_truncated() {
    assert_eq!(error_of(&hex("00 7f ff ff ff ff 07")), Some(DecodeError::Truncated));
}

#[test]
fn invalid_huffman_is_an_error_in_names_and_values() {
    assert_eq!(error_of(&hex("00 81 ff 01 61")), Some(DecodeError::InvalidHuffman));
    assert_eq!(error_of(&hex("00 01 61 84 ff ff ff ff")), Some(DecodeError::InvalidHuffman));
}

#[test]
fn never_indexed_is_kept_and_other_literals_are_not_marked() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let section = decode(&mut decoder, &hex("10 01 61 01 31 00 01 62 01 32 40 01 63 01 33 be")).expect("a valid block");
    let marks: Vec<_> = section.iter().map(|field| field.never_indexed).collect();
    assert_eq!(marks, [true, false, false, false]);
    assert_eq!(entries_of(&decoder.table), pairs(&[("c", "3")]));
}

#[test]
fn name_of_an_entry_that_its_own_insertion_evicts_is_still_used() {
    let mut decoder = Decoder::new(64);
    decode(&mut decoder, &inserted(b"name", b"1")).expect("a valid block");
    let section = decode(&mut decoder, &hex("7e 04 32 32 32 32")).expect("a valid block");
    assert_eq!(pairs_of(&section), pairs(&[("name", "2222")]));
    assert_eq!(entries_of(&decoder.table), pairs(&[("name", "2222")]));
}

#[test]
fn size_updates_at_the_start_shrink_and_grow_the_table() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    decode(&mut decoder, &inserted(b"a", b"1")).expect("a valid block");
    // A size update to 0, then a size update to 4096.
    decode(&mut decoder, &hex("20 3f e1 1f")).expect("both updates are allowed");
    assert!(entries_of(&decoder.table).is_empty());
    assert_eq!(decoder.table.max_size(), DEFAULT_TABLE_SIZE);
    assert_eq!(decoder.memory_bytes(), 0);
}

#[test]
fn size_update_above_what_was_announced_is_an_error() {
    let requested = DEFAULT_TABLE_SIZE + 1;
    let error = DecodeError::SizeUpdateTooLarge { requested, allowed: DEFAULT_TABLE_SIZE };
    assert_eq!(error_of(&hex("3f e2 1f")), Some(error));
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    decoder.set_max_table_size(requested);
    assert_eq!(decode(&mut decoder, &hex("3f e2 1f")).err(), None);
}

#[test]
fn size_update_after_a_field_is_an_error() {
    assert_eq!(error_of(&hex("82 20")), Some(DecodeError::SizeUpdateMisplaced));
}

#[test]
fn smaller_announced_table_must_be_acknowledged_by_the_next_block() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    decoder.set_max_table_size(100);
    assert_eq!(decode(&mut decoder, &[0x82]).err(), Some(DecodeError::SizeUpdateMissing));
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    decoder.set_max_table_size(100);
    assert_eq!(decode(&mut decoder, &hex("3f 45 82")).err(), None);
    assert_eq!(decoder.table.max_size(), 100);
    assert_eq!(decode(&mut decoder, &[0x82]).err(), None);
}

#[test]
fn larger_announced_table_need_not_be_used() {
    let mut decoder = Decoder::new(100);
    decoder.set_max_table_size(DEFAULT_TABLE_SIZE);
    assert_eq!(decode(&mut decoder, &[0x82]).err(), None);
    assert_eq!(decoder.table.max_size(), 100);
    // The new maximum is smaller than the old one, but larger than the size in use, so the peer need not shrink its
    // table.
    decoder.set_max_table_size(200);
    assert_eq!(decode(&mut decoder, &[0x82]).err(), None);
}

#[test]
fn list_that_just_fits_is_not_oversize() {
    let mut section = FieldSection::new();
    let result = Decoder::new(DEFAULT_TABLE_SIZE).decode(&hex("00 01 61 01 31"), 34, &mut section);
    assert_eq!((result, section.len(), section.defects()), (Ok(()), 1, Defects::NONE));
}

#[test]
fn oversize_list_is_counted_to_its_end_and_keeps_the_table_right() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let mut section = FieldSection::new();
    let block = [inserted(b"a", b"1"), inserted(b"b", b"2"), inserted(b"c", b"3")].concat();
    decoder.decode(&block, 40, &mut section).expect("the block is valid");
    assert_eq!(section.defects(), Defects::OVERSIZE);
    assert_eq!(section.list_size(), 3 * 34);
    assert_eq!(pairs_of(&section), pairs(&[("a", "1")]));
    assert_eq!(entries_of(&decoder.table), pairs(&[("c", "3"), ("b", "2"), ("a", "1")]));
}

#[test]
fn hpack_bomb_is_only_counted() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let mut section = FieldSection::new();
    let mut block = inserted(b"a", &[b'x'; 4000]);
    block.resize(block.len() + 1_000_000, 0xbe);
    decoder.decode(&block, 16_384, &mut section).expect("the block is valid");
    assert!(section.defects().contains(Defects::OVERSIZE));
    assert_eq!(section.list_size(), 1_000_001 * 4033);
    assert_eq!(section.len(), 4);
    assert!(section.capacity_bytes() < 40_000, "{}", section.capacity_bytes());
    assert!(decoder.memory_bytes() < 8192, "{}", decoder.memory_bytes());
}

#[test]
fn literals_that_repeat_a_large_name_hold_no_more_than_the_list_and_one_field() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let mut section = FieldSection::new();
    let mut block = inserted(&[b'n'; 4000], b"");
    // Each literal has incremental indexing, the name of the newest entry and an empty value. The table has room for
    // one such entry, so each literal replaces the entry before it.
    for _ in 0..30 {
        block.extend([0x7e, 0x00]);
    }
    decoder.decode(&block, 16_384, &mut section).expect("the block is valid");
    assert!(section.defects().contains(Defects::OVERSIZE));
    assert_eq!(section.len(), 4);
    assert!(section.capacity_bytes() < 50_000, "{}", section.capacity_bytes());
    assert_eq!(entries_of(&decoder.table), [(vec![b'n'; 4000], Vec::new())]);
}

#[test]
fn defects_are_remembered_by_indexed_fields() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    for (name, value, defect) in [
        (&b"Upper"[..], &b"1"[..], Defects::BAD_NAME),
        (b"a", b"line\nbreak", Defects::BAD_VALUE),
        (b"a", b" padded", Defects::PADDED_VALUE),
        (b"connection", b"close", Defects::CONNECTION_SPECIFIC),
        (b":unknown", b"1", Defects::UNKNOWN_PSEUDO),
    ] {
        let literal = decode(&mut decoder, &inserted(name, value)).expect("a valid block");
        assert_eq!(literal.defects(), defect);
        let indexed = decode(&mut decoder, &[0xbe]).expect("the entry is there");
        assert_eq!(indexed.defects(), defect);
    }
}

#[test]
fn defects_of_a_name_hold_with_every_value_and_those_of_a_value_do_not() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    decode(&mut decoder, &inserted(b"Upper", b" padded ")).expect("a valid block");
    let section = decode(&mut decoder, &hex("0f 2f 01 61")).expect("the entry is there");
    assert_eq!(section.defects(), Defects::BAD_NAME);
    decode(&mut decoder, &inserted(b"te", b"gzip")).expect("a valid block");
    let section = decode(&mut decoder, &[&hex("0f 2f 08")[..], b"trailers"].concat()).expect("the entry is there");
    assert_eq!(section.defects(), Defects::NONE);
    assert_eq!(section.get(Known::Te), Some(&b"trailers"[..]));
}

#[test]
fn decoder_is_small_and_allocates_nothing_before_the_first_insertion() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    decode(&mut decoder, &hex("82 86 84 00 01 61 01 31")).expect("a valid block");
    assert_eq!(decoder.memory_bytes(), 0);
    assert!(size_of::<Decoder>() <= 128, "{}", size_of::<Decoder>());
}

#[test]
fn random_bytes_never_panic_and_never_exceed_the_limits() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for _ in 0..20_000 {
        let mut decoder = Decoder::new(random.usize(..5000));
        for _ in 0..4 {
            let block: Vec<u8> = (0..random.usize(..64)).map(|_| random.u8(..)).collect();
            let mut section = FieldSection::new();
            let result = decoder.decode(&block, 200, &mut section);
            let stored: usize = section.iter().map(|field| field.text.len() + 32).sum();
            assert!(stored <= 200);
            if result.is_err() {
                break;
            }
            assert_eq!(stored == section.list_size(), !section.defects().contains(Defects::OVERSIZE));
        }
    }
}

#[test]
fn a_small_block_that_stands_for_megabytes_is_given_up() {
    // A name of nearly 4 KiB enters the table; then each field of two bytes repeats it.
    let mut block = inserted(&[b'x'; 4_000], b"");
    block.extend([0x7e, 0x00].repeat(16_000));
    let (mut decoder, mut fields) = (Decoder::new(DEFAULT_TABLE_SIZE), FieldSection::new());
    let decoded = decoder.decode(&block, 16_384, &mut fields);
    assert_eq!(decoded, Err(DecodeError::TooManyCopies));
    assert!(fields.list_size() <= COPIES_MIN_BYTES + 3 * 4_096, "it stops where the bound is reached");
}
