//! Random sections pass through an encoder and a decoder whose table size changes now and then.

use super::testing::{decode, entries_of, pairs_of};
use super::{DEFAULT_TABLE_SIZE, Decoder, Encoder, MAX_TABLE_SIZE};
use crate::fields::FieldSection;

const NAMES: &[&str] = &[
    ":method",
    ":path",
    ":status",
    "content-type",
    "user-agent",
    "te",
    "grpc-status",
    "grpc-timeout",
    "cookie",
    "x-request-id",
    "x-tenant",
    "authorization",
    "date",
    "accept-encoding",
    "grpc-accept-encoding",
    "a",
];

/// Returns mostly one of 30 values, so that fields repeat, and sometimes random bytes, digits or a long value.
fn random_value(random: &mut fastrand::Rng) -> Vec<u8> {
    match random.u8(..20) {
        0 => (0..random.usize(..300)).map(|_| random.u8(..)).collect(),
        1 => vec![b'v'; random.usize(..5000)],
        2 => Vec::new(),
        3..8 => random.u64(..).to_string().into_bytes(),
        _ => format!("value-{}", random.u8(..30)).into_bytes(),
    }
}

fn random_section(random: &mut fastrand::Rng) -> FieldSection {
    let mut section = FieldSection::new();
    for _ in 0..random.usize(..12) {
        let name = NAMES[random.usize(..NAMES.len())];
        let value = random_value(random);
        if random.u8(..10) == 0 {
            section.push_never_indexed(name.as_bytes(), &value);
        } else {
            section.push(name.as_bytes(), &value);
        }
    }
    section
}

#[test]
fn random_sections_survive_both_directions_at_every_table_size() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for _ in 0..20 {
        let mut encoder = Encoder::new();
        let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
        for _ in 0..200 {
            for _ in 0..random.usize(..40).saturating_sub(37) {
                let setting = if random.bool() { random.usize(..300) } else { random.usize(..=MAX_TABLE_SIZE) };
                decoder.set_max_table_size(setting);
                encoder.set_max_table_size(setting);
            }
            let sent = random_section(&mut random);
            let mut block = Vec::new();
            encoder.encode(&sent, &mut block);
            let received = decode(&mut decoder, &block).expect("our own block is valid");
            assert_eq!(pairs_of(&received), pairs_of(&sent));
            assert_eq!(received.list_size(), sent.list_size());
            assert_eq!(received.defects(), sent.defects());
            assert_eq!(entries_of(&decoder.table), entries_of(&encoder.table));
            for (received, sent) in received.iter().zip(sent.iter()) {
                assert_eq!(received.known, sent.known);
                assert!(received.never_indexed || !sent.never_indexed);
            }
        }
    }
}

/// Tests the whole path of a relay: decodes the output of one peer's encoder, and encodes the fields again for another
/// peer.
#[test]
fn relayed_sections_arrive_as_they_were_sent() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let (mut client, mut proxy_encoder) = (Encoder::new(), Encoder::new());
    let (mut proxy_decoder, mut server) = (Decoder::new(DEFAULT_TABLE_SIZE), Decoder::new(DEFAULT_TABLE_SIZE));
    for _ in 0..2000 {
        let sent = random_section(&mut random);
        let (mut block, mut relayed_block) = (Vec::new(), Vec::new());
        client.encode(&sent, &mut block);
        let relayed = decode(&mut proxy_decoder, &block).expect("our own block is valid");
        proxy_encoder.encode(&relayed, &mut relayed_block);
        assert_eq!(relayed_block, block, "a relay with the same past says the same");
        let received = decode(&mut server, &relayed_block).expect("our own block is valid");
        assert_eq!(pairs_of(&received), pairs_of(&sent));
    }
}
