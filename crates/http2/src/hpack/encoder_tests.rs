use super::*;
use crate::hpack::Decoder;
use crate::hpack::testing::{decode, entries_of, hex, pairs, pairs_of, section};

fn encode(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.encode(&section(fields), &mut block);
    block
}

/// Encodes the fields three times, and returns the third block. Every later block would be equal to the third.
fn third(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encode(&mut encoder, fields);
    encode(&mut encoder, fields);
    encode(&mut encoder, fields)
}

#[test]
fn field_is_a_raw_literal_first_then_inserted_then_one_byte() {
    let mut encoder = Encoder::new();
    let fields = &[("grpc-status", "0")];
    assert_eq!(encode(&mut encoder, fields), [&[0x00, 11][..], b"grpc-status", &[1], b"0"].concat());
    assert!(entries_of(&encoder.table).is_empty());
    let inserted = encode(&mut encoder, fields);
    assert_eq!(inserted[..2], [0x40, 0x88], "a literal with a Huffman-coded name of 8 bytes");
    assert_eq!(entries_of(&encoder.table), pairs(fields));
    assert_eq!(encode(&mut encoder, fields), [0xbe]);
}

#[test]
fn typical_request_is_one_byte_per_field_from_the_third_time_on() {
    let block = third(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/echo.v1.Echo/Unary"),
        (":authority", "echo.default:50051"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]);
    assert_eq!(block, [0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe]);
}

#[test]
fn strings_that_huffman_does_not_shorten_are_inserted_raw() {
    let mut encoder = Encoder::new();
    encode(&mut encoder, &[("x", "{}")]);
    assert_eq!(encode(&mut encoder, &[("x", "{}")]), hex("40 01 78 02 7b 7d"));
}

#[test]
fn secrets_are_never_indexed() {
    for name in ["authorization", "proxy-authorization", "cookie", "set-cookie"] {
        let mut encoder = Encoder::new();
        for _ in 0..3 {
            let block = encode(&mut encoder, &[(name, "secret")]);
            assert_eq!(block[0] & 0xf0, 0x10, "{name} is a never-indexed literal");
            assert!(block.ends_with(b"\x06secret"));
        }
        assert_eq!(encoder.memory_bytes(), 0);
    }
}

#[test]
fn never_indexed_fields_stay_so_even_if_a_table_has_them() {
    let mut encoder = Encoder::new();
    for _ in 0..3 {
        encode(&mut encoder, &[("x", "1")]);
    }
    let mut section = FieldSection::new();
    section.push_never_indexed(b"x", b"1");
    section.push_never_indexed(b":method", b"GET");
    let mut block = Vec::new();
    encoder.encode(&section, &mut block);
    assert_eq!(block, hex("10 01 78 01 31 12 03 47 45 54"));
}

#[test]
fn date_is_one_byte_for_the_rest_of_its_second() {
    let mut encoder = Encoder::new();
    for second in 10..60 {
        let fields = &[("date", &*format!("Tue, 25 Nov 2025 22:06:{second} GMT"))];
        let lengths: Vec<_> = (0..1000).map(|_| encode(&mut encoder, fields).len()).collect();
        // A literal, Huffman-coded: 2 bytes for the name and 1 for the length.
        assert!((20..=27).contains(&lengths[0]), "{}", lengths[0]);
        assert!((20..=27).contains(&lengths[1]), "{}", lengths[1]);
        assert!(lengths[2..].iter().all(|&length| length == 1));
    }
}

#[test]
fn name_of_values_that_differ_is_sent_twice_and_then_by_its_index() {
    let mut encoder = Encoder::new();
    assert_eq!(encode(&mut encoder, &[("grpc-timeout", "1u")]), [&[0x00, 12][..], b"grpc-timeout\x021u"].concat());
    assert_eq!(encode(&mut encoder, &[("grpc-timeout", "2u")])[0], 0x40, "inserted for its name");
    // Index 62 does not fit in 4 bits.
    assert_eq!(encode(&mut encoder, &[("grpc-timeout", "3u")]), [&[0x0f, 62 - 15][..], b"\x023u"].concat());
    assert_eq!(entries_of(&encoder.table), pairs(&[("grpc-timeout", "2u")]));
    // `2u` occurs again and is already in the table. `3u` occurs for the second time, and is inserted with a reference
    // to the name of `2u`.
    assert_eq!(encode(&mut encoder, &[("grpc-timeout", "2u")]), [0xbe]);
    assert_eq!(encode(&mut encoder, &[("grpc-timeout", "3u")])[..2], [0x40 | 62, 0x02]);
    assert_eq!(encode(&mut encoder, &[("grpc-timeout", "3u")]), [0xbe]);
}

#[test]
fn long_fields_are_not_inserted_for_their_name() {
    let mut encoder = Encoder::new();
    let limit = DEFAULT_TABLE_SIZE / NAME_FRACTION - LINE_OVERHEAD - 1;
    for (letter, length, first_byte) in
        [("a", limit + 1, 0x00), ("b", limit + 1, 0x00), ("c", limit, 0x00), ("d", limit, 0x40), ("e", limit + 1, 0x0f)]
    {
        assert_eq!(encode(&mut encoder, &[("x", &letter.repeat(length))])[0], first_byte, "{letter}");
    }
}

#[test]
fn unique_values_of_any_number_of_names_take_at_most_half_of_the_table() {
    let mut encoder = Encoder::new();
    let repeated = &[("x-tenant", "blue")];
    for _ in 0..2 {
        encode(&mut encoder, repeated);
    }
    for number in 0..10_000 {
        let (name, value) = (format!("x-{:03}", number % 500 / 2), format!("{number:09}"));
        encode(&mut encoder, &[(&name, &value)]);
        assert_eq!(encode(&mut encoder, repeated).len(), 1);
    }
    assert_eq!(entries_of(&encoder.table).len(), 1 + index::NAMES);
}

#[test]
fn values_of_the_length_of_an_id_are_huffman_coded() {
    let digits = "0123456789abcdef".repeat(9);
    let literal_len = |length: usize| encode(&mut Encoder::new(), &[("date", &digits[..length])]).len() - 3;
    assert_eq!(literal_len(CODED_BYTES.start() - 1), CODED_BYTES.start() - 1);
    // The 16 digits have codes of 5 or 6 bits, 45/8 bits on average.
    assert_eq!(literal_len(*CODED_BYTES.start()), (16 * 45_usize).div_ceil(64));
    assert_eq!(literal_len(*CODED_BYTES.end()), 128 * 45 / 64);
}

#[test]
fn long_strings_are_huffman_coded_when_they_are_inserted() {
    let mut encoder = Encoder::new();
    let fields = &[("date", &*"a".repeat(1000))];
    encode(&mut encoder, fields);
    let inserted = encode(&mut encoder, fields);
    assert_eq!(inserted[..4], [0x40 | 33, 0xff, 0xf2, 0x03], "a coded length of 625 bytes");
    assert_eq!(inserted.len(), 4 + 625);
}

#[test]
fn unique_values_do_not_evict_what_repeats() {
    let mut encoder = Encoder::new();
    let repeated = &[("x-tenant", "blue")];
    for _ in 0..2 {
        encode(&mut encoder, repeated);
    }
    for number in 0..10_000 {
        encode(&mut encoder, &[("x-unique", &format!("{number:032}"))]);
        assert_eq!(encode(&mut encoder, repeated).len(), 1);
    }
    // One entry is for the name, one for the repeated field. Up to two unique values may also be inserted by mistake,
    // because the index remembers only a part of each hash.
    let entries = entries_of(&encoder.table).len();
    assert!((2..=4).contains(&entries), "{entries}");
}

#[test]
fn fields_of_more_than_three_quarters_of_the_table_are_not_inserted() {
    let limit = DEFAULT_TABLE_SIZE / 4 * 3 - LINE_OVERHEAD - 1;
    assert_eq!(third(&[("x", &"v".repeat(limit))]), [0xbe]);
    assert_eq!(third(&[("x", &"v".repeat(limit + 1))])[0], 0);
}

#[test]
fn evicted_fields_are_literals_again() {
    let mut encoder = Encoder::new();
    let large: Vec<_> = ["a", "b", "c"].map(|name| (name, "v".repeat(1500))).to_vec();
    let mut first_bytes = Vec::new();
    for (name, value) in large.iter().chain(&large[..1]) {
        encode(&mut encoder, &[(name, value)]);
        first_bytes.push(encode(&mut encoder, &[(name, value)])[0]);
    }
    assert_eq!(first_bytes, [0x40, 0x40, 0x40, 0x40], "each is inserted, the last one again");
    assert_eq!(entries_of(&encoder.table).len(), 2);
}

#[test]
fn smaller_setting_of_the_peer_is_announced_once_by_the_next_block() {
    let mut encoder = Encoder::new();
    for _ in 0..3 {
        encode(&mut encoder, &[("x", "1")]);
    }
    encoder.set_max_table_size(20);
    assert_eq!(encode(&mut encoder, &[(":method", "GET")]), [0x20 | 20, 0x82]);
    assert_eq!(encode(&mut encoder, &[(":method", "GET")]), [0x82]);
    assert!(entries_of(&encoder.table).is_empty());
}

#[test]
fn smallest_and_last_setting_are_announced_if_several_came() {
    let mut encoder = Encoder::new();
    for setting in [1000, 0, 30, 200] {
        encoder.set_max_table_size(setting);
    }
    assert_eq!(encode(&mut encoder, &[]), hex("20 3f a9 01"));
    encoder.set_max_table_size(100);
    encoder.set_max_table_size(4096);
    assert_eq!(encode(&mut encoder, &[]), hex("3f 45 3f e1 1f"));
}

#[test]
fn settings_above_what_is_used_change_nothing() {
    let mut encoder = Encoder::new();
    encoder.set_max_table_size(65_536);
    assert_eq!(encode(&mut encoder, &[(":method", "GET")]), [0x82]);
    encoder.set_max_table_size(100);
    encode(&mut encoder, &[]);
    encoder.set_max_table_size(65_536);
    assert_eq!(encode(&mut encoder, &[]), hex("3f e1 1f"), "4096, the most that is used");
}

#[test]
fn peer_with_a_table_of_size_zero_gets_literals() {
    let mut encoder = Encoder::new();
    encoder.set_max_table_size(0);
    for _ in 0..3 {
        let block = encode(&mut encoder, &[("x", "1")]);
        assert!(block.ends_with(&hex("00 01 78 01 31")));
    }
}

#[test]
fn full_table_is_decoded_right_whatever_is_evicted() {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    for round in 0..1200 {
        // 200 fields, more than fit in the table, each sent twice in a row.
        let value = (round / 2 % 200).to_string();
        let fields = [("x-number", value.as_str()), ("x-constant", "always")];
        let block = encode(&mut encoder, &fields);
        let section = decode(&mut decoder, &block).expect("our own block is valid");
        assert_eq!(pairs_of(&section), pairs(&fields));
        assert_eq!(entries_of(&decoder.table), entries_of(&encoder.table));
    }
    assert!(encoder.memory_bytes() < 8192, "{}", encoder.memory_bytes());
}

#[test]
fn encoder_is_small_and_allocates_nothing_for_static_fields() {
    let mut encoder = Encoder::new();
    encode(&mut encoder, &[(":method", "GET"), (":status", "200"), ("cookie", "a=b")]);
    assert_eq!(encoder.memory_bytes(), 0);
    assert!(size_of::<Encoder>() <= 128, "{}", size_of::<Encoder>());
}
