use std::collections::HashSet;

use super::super::testing::{NO_LIMIT, hex, pairs, pairs_of, section};
use super::super::{DEFAULT_TABLE_SIZE, Decoder, Encoder};
use super::*;

use crate::fields::{Known, PreparedField};

const RESPONSE: [(&str, &str); 3] =
    [(":status", "200"), ("content-type", "application/grpc"), ("server", "a server with a name")];

fn decode(decoder: &mut Decoder, block: &[u8]) -> FieldSection {
    let mut fields = FieldSection::new();
    decoder.decode(block, NO_LIMIT, &mut fields).expect("a valid block");
    fields
}

fn encode(encoder: &mut Encoder, fields: &FieldSection) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.encode(fields, &mut block);
    block
}

/// Returns the block that encodes these fields when all of them are in the table, and a decoder that has decoded this
/// block `times` times.
fn learned(fields: &[(&str, &str)], times: usize) -> (Vec<u8>, Decoder) {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(DEFAULT_TABLE_SIZE));
    for _ in 0..2 {
        let block = encode(&mut encoder, &section(fields));
        decode(&mut decoder, &block);
    }
    let block = encode(&mut encoder, &section(fields));
    for _ in 0..times {
        decode(&mut decoder, &block);
    }
    (block, decoder)
}

#[test]
fn the_fields_of_a_block_that_repeats_have_one_number() {
    let (block, mut decoder) = learned(&RESPONSE, 1);
    let second = decode(&mut decoder, &block);
    let [third, fourth] = [(); 2].map(|()| decode(&mut decoder, &block));
    assert_eq!((second.content(), third.content()), (0, fourth.content()));
    assert_ne!(third.content(), 0);
    assert_eq!((pairs_of(&second), pairs_of(&third)), (pairs(&RESPONSE), pairs(&RESPONSE)));
    assert_eq!((second.list_size(), second.defects()), (third.list_size(), third.defects()));
}

#[test]
fn two_connections_never_use_one_number_for_two_contents() {
    let mut numbers = HashSet::new();
    for name in ["a", "b", "c"] {
        let fields = [(":status", "200"), ("content-type", "application/grpc"), ("server", name)];
        let (block, mut decoder) = learned(&fields, 2);
        assert!(numbers.insert(decode(&mut decoder, &block).content()));
    }
    assert!(!numbers.contains(&0));
}

#[test]
fn a_change_of_the_table_changes_what_a_remembered_block_means() {
    let (block, mut decoder) = learned(&RESPONSE, 4);
    // This literal is inserted in the table, so each index of the remembered block now refers to the next newer entry.
    decode(&mut decoder, &hex("40 01 61 01 62"));
    let fields = decode(&mut decoder, &block);
    assert_eq!(pairs_of(&fields)[1..], pairs(&[RESPONSE[2], ("a", "b")]), "indexes 63 and 62");
    assert_eq!(fields.content(), 0);
}

#[test]
fn a_smaller_table_that_must_be_announced_is_still_missed() {
    let (block, mut decoder) = learned(&RESPONSE, 4);
    decoder.set_max_table_size(100);
    assert!(decoder.decode(&block, NO_LIMIT, &mut FieldSection::new()).is_err());
}

#[test]
fn a_remembered_block_obeys_the_limit_of_the_list() {
    let (block, mut decoder) = learned(&RESPONSE, 4);
    let mut fields = FieldSection::new();
    decoder.decode(&block, 100, &mut fields).expect("a valid block");
    assert!(fields.defects().contains(crate::fields::Defects::OVERSIZE));
}

#[test]
fn secrets_and_malformed_sections_are_not_remembered() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let never_indexed = hex("10 01 61 01 62");
    let upper_case = hex("00 01 41 01 62");
    for block in [never_indexed, upper_case] {
        let latest = (0..5).map(|_| decode(&mut decoder, &block)).last().expect("a section");
        assert_eq!(latest.content(), 0, "{block:?}");
    }
    assert_eq!(decoder.repeats.memory_bytes(), 0);
}

#[test]
fn whoever_changes_fields_takes_their_number_away() {
    let (block, mut decoder) = learned(&RESPONSE, 2);
    let fields = decode(&mut decoder, &block);
    type Change = fn(&mut FieldSection);
    let changes: [Change; 6] = [
        |fields| fields.push(b"a", b"b"),
        |fields| fields.push_never_indexed(b"a", b"b"),
        |fields| fields.set(Known::Status, b"204"),
        |fields| fields.remove(Known::ContentType),
        |fields| fields.remove_named(b"server"),
        FieldSection::clear,
    ];
    for change in changes {
        let mut changed = fields.clone();
        assert_ne!(changed.content(), 0);
        change(&mut changed);
        assert_eq!(changed.content(), 0, "{changed:?}");
    }
    let mut same = fields.clone();
    same.remove(Known::GrpcTimeout);
    same.shrink(0);
    assert_eq!(same.content(), fields.content(), "the fields are the same");
}

#[test]
fn a_section_with_a_number_is_encoded_as_if_it_had_none() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let (mut encoder, mut plain, mut peer) = (Encoder::new(), Encoder::new(), Decoder::new(DEFAULT_TABLE_SIZE));
    let (block, mut decoder) = learned(&RESPONSE, 2);
    let numbered = decode(&mut decoder, &block);
    assert_ne!(numbered.content(), 0);
    let prepared = [b"1S", b"2S"].map(|value| PreparedField::new(Known::GrpcTimeout, value));
    for round in 0..2_000 {
        let fields = match random.u8(..12) {
            // A content number covers the first fields of a section. Cases 2 to 5 change only later fields. Cases 6 and
            // 7 change covered fields.
            2 => changed(&numbered, |fields| fields.push(b"x-same", b"value")),
            3 => changed(&numbered, |fields| fields.push(b"x-value", random.u8(..).to_string().as_bytes())),
            4 => changed(&numbered, |fields| fields.push_never_indexed(b"x-secret", b"value")),
            5 => changed(&numbered, |fields| {
                fields.push(b"x-value", b"gone");
                fields.set(Known::GrpcTimeout, b"1S");
                fields.remove_named(b"x-value");
            }),
            6 => changed(&numbered, |fields| fields.remove_named(b"server")),
            7 => changed(&numbered, |fields| fields.set(Known::ContentType, b"text/plain")),
            8 => changed(&numbered, |fields| fields.push_prepared(random.choice(&prepared).expect("there are two"))),
            // Values that sometimes occur twice, so that they change the table.
            0 => section(&[(":status", "200"), ("x-value", &random.u8(..).to_string())]),
            1 if round % 100 == 0 => {
                let size = random.usize(100..=DEFAULT_TABLE_SIZE);
                encoder.set_max_table_size(size);
                plain.set_max_table_size(size);
                peer.set_max_table_size(size);
                numbered.clone()
            }
            _ => numbered.clone(),
        };
        let block = encode(&mut encoder, &fields);
        assert_eq!(block, encode(&mut plain, &section_of(&fields)), "round {round}");
        assert_eq!(pairs_of(&decode(&mut peer, &block)), pairs_of(&fields));
    }
    assert!(encoder.repeats.memory_bytes() > 0);
}

fn changed(fields: &FieldSection, change: impl FnOnce(&mut FieldSection)) -> FieldSection {
    let mut fields = fields.clone();
    change(&mut fields);
    fields
}

#[test]
fn fields_behind_a_number_leave_it_to_the_fields_before() {
    let (block, mut decoder) = learned(&RESPONSE, 2);
    let numbered = decode(&mut decoder, &block);
    let (number, count) = (numbered.content(), numbered.len());
    let mut fields = numbered.clone();
    fields.push(b"a", b"b");
    fields.set(Known::GrpcTimeout, b"1S");
    fields.set(Known::GrpcTimeout, b"2S");
    assert_eq!((fields.content(), fields.beginning()), (0, (number, count)));
    fields.remove(Known::GrpcTimeout);
    fields.remove_named(b"a");
    assert_eq!(fields.content(), number, "the fields are the same again");
    let changes: [fn(&mut FieldSection); 4] = [
        |fields| fields.set(Known::Status, b"204"),
        |fields| fields.set(Known::Path, b"/"),
        |fields| fields.remove(Known::ContentType),
        FieldSection::clear,
    ];
    for change in changes {
        let mut changed = fields.clone();
        changed.push(b"a", b"b");
        change(&mut changed);
        assert_eq!(changed.beginning(), (0, 0), "{changed:?}");
    }
}

#[test]
fn a_prepared_field_behind_a_number_makes_another_number() {
    let (block, mut decoder) = learned(&RESPONSE, 2);
    let numbered = decode(&mut decoder, &block);
    let [one, two] = [b"1S", b"2S"].map(|value| PreparedField::new(Known::GrpcTimeout, value));
    let with = |field: &PreparedField| changed(&numbered, |fields| fields.push_prepared(field));
    assert_eq!(with(&one).content(), with(&one).content());
    assert_eq!(with(&one).beginning(), (with(&one).content(), numbered.len() + 1));
    let numbers = HashSet::from([0, numbered.content(), with(&one).content(), with(&two).content()]);
    assert_eq!(numbers.len(), 4);
    // In the following cases, the result has no content number. Two prepared fields are appended; a prepared field
    // follows another new field; the section has no number; the prepared field is changed.
    let twice = changed(&with(&one), |fields| fields.push_prepared(&two));
    assert_eq!((twice.content(), twice.beginning()), (0, with(&one).beginning()));
    let behind = changed(&changed(&numbered, |fields| fields.push(b"a", b"b")), |fields| fields.push_prepared(&one));
    assert_eq!((behind.content(), behind.beginning()), (0, numbered.beginning()));
    assert_eq!(changed(&section(&RESPONSE), |fields| fields.push_prepared(&one)).content(), 0);
    assert_eq!(changed(&with(&one), |fields| fields.set(Known::GrpcTimeout, b"3S")).content(), 0);
}

/// Returns a section with the same fields, but without a content number.
fn section_of(fields: &FieldSection) -> FieldSection {
    let mut section = FieldSection::new();
    for line in fields.iter() {
        match line.never_indexed {
            true => section.push_never_indexed(line.name, line.value),
            false => section.push(line.name, line.value),
        }
    }
    section
}

#[test]
fn random_blocks_decode_as_they_do_without_memory() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for _ in 0..50 {
        let (mut remembering, mut plain) = (Decoder::new(DEFAULT_TABLE_SIZE), Decoder::new(DEFAULT_TABLE_SIZE));
        plain.save_memory(true);
        for _ in 0..400 {
            // Indexes of the static table and of the newest entries, literals of all kinds, and size updates.
            let block: Vec<u8> = match random.u8(..6) {
                0 => vec![0x80 | random.u8(60..66), 0x82],
                1 => vec![0x40, 1, b'a', 1, random.u8(b'a'..b'e')],
                2 => vec![0x00, 1, b'a', 1, random.u8(b'a'..b'c')],
                3 => vec![0x10, 1, b'a', 1, random.u8(b'a'..b'c')],
                4 if random.u8(..20) == 0 => vec![0x20 | random.u8(..31), 0x82],
                _ => vec![0x82, 0x80 | random.u8(62..65), 0x84],
            };
            let (mut fields, mut expected) = (FieldSection::new(), FieldSection::new());
            let outcome = remembering.decode(&block, NO_LIMIT, &mut fields);
            assert_eq!(outcome, plain.decode(&block, NO_LIMIT, &mut expected));
            if outcome.is_err() {
                break;
            }
            assert_eq!((pairs_of(&fields), fields.defects()), (pairs_of(&expected), expected.defects()));
        }
    }
}

#[test]
fn memory_is_bounded_and_given_back() {
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    for number in 0..2_000_u32 {
        let value = vec![b'v'; number as usize % 120];
        let mut block = vec![0x00, 2, b'x'];
        block.push(b'0' + (number % 10) as u8);
        block.push(value.len() as u8);
        block.extend_from_slice(&value);
        for _ in 0..3 {
            decode(&mut decoder, &block);
        }
    }
    let most = DECODED * (DECODED_BLOCK_MAX_BYTES + DECODED_FIELDS_MAX_BYTES + size_of::<Decoded>());
    assert!((1..=most).contains(&decoder.repeats.memory_bytes()), "{} bytes", decoder.repeats.memory_bytes());
    decoder.save_memory(true);
    for _ in 0..3 {
        decode(&mut decoder, &[0x82]);
    }
    assert_eq!(decoder.repeats.memory_bytes(), 0);
}

#[test]
fn sections_whose_numbers_lead_to_one_place_are_all_remembered() {
    let mut blocks = EncodedBlocks::default();
    let number = |section: usize| (section * ENCODED) as u64;
    for section in 1..=ENCODED {
        blocks.note(number(section), &[section as u8]);
        blocks.note(number(section), &[section as u8]);
    }
    for section in 1..=ENCODED {
        assert_eq!(blocks.find(number(section)), Some(&[section as u8][..]));
    }
    blocks.note(number(ENCODED + 1), &[99]);
    assert_eq!(blocks.find(number(ENCODED + 1)), Some(&[99][..]));
    let remembered = (1..=ENCODED).filter(|section| blocks.find(number(*section)).is_some()).count();
    assert_eq!(remembered, ENCODED - 1, "one section makes room");
    blocks.forget();
    assert!((1..=ENCODED + 1).all(|section| blocks.find(number(section)).is_none()));
}

#[test]
fn blocks_whose_hashes_lead_to_one_place_are_all_remembered() {
    let of_place = |place: usize| {
        let letters = b'a'..=b'z';
        let values = letters.clone().flat_map(move |first| letters.clone().map(move |second| (first, second)));
        let blocks = values.map(|(first, second)| vec![0x00, 1, b'a', 2, first, second]);
        blocks.filter(move |block| BlockHash::of(block).expect("a short block").0 as usize % DECODED == place)
    };
    let blocks: Vec<_> = of_place(3).take(DECODED).collect();
    assert_eq!(blocks.len(), DECODED);
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    for _ in 0..2 {
        blocks.iter().for_each(|block| drop(decode(&mut decoder, block)));
    }
    assert!(blocks.iter().all(|block| decode(&mut decoder, block).content() != 0));
    for value in 0..=u8::MAX {
        decode(&mut decoder, &[0x00, 1, b'b', 1, value]);
    }
    assert!(
        blocks.iter().all(|block| decode(&mut decoder, block).content() != 0),
        "blocks that occur once replace none"
    );
}
