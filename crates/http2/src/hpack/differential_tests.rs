//! Random traffic between this module and an independent implementation of HPACK.

use httlib_hpack::{Decoder as TheirDecoder, Encoder as TheirEncoder};

use super::testing::{Pairs, decode, pairs_of};
use super::{DEFAULT_TABLE_SIZE, Decoder, Encoder};
use crate::fields::FieldSection;

fn random_fields(random: &mut fastrand::Rng) -> Pairs {
    (0..random.usize(1..10))
        .map(|_| {
            let name = format!("name-{}", random.u8(..20)).into_bytes();
            let value = match random.u8(..4) {
                0 => (0..random.usize(..100)).map(|_| random.u8(..)).collect(),
                _ => format!("value-{}", random.u8(..5)).into_bytes(),
            };
            match random.u8(..6) {
                0 => (b":method".to_vec(), b"POST".to_vec()),
                1 => (b"content-type".to_vec(), value),
                _ => (name, value),
            }
        })
        .collect()
}

#[test]
fn blocks_of_an_independent_encoder_are_decoded() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for _ in 0..10 {
        let mut encoder = TheirEncoder::with_dynamic_size(DEFAULT_TABLE_SIZE as u32);
        let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
        for _ in 0..200 {
            let fields = random_fields(&mut random);
            let mut block = Vec::new();
            if random.u8(..10) == 0 {
                let size = random.u32(..=DEFAULT_TABLE_SIZE as u32);
                encoder.update_max_dynamic_size(size, &mut block).expect("any size is valid");
            }
            for (name, value) in fields.clone() {
                // A random mixture of Huffman coding, indexing or never indexing, and literal or best format.
                let indexing = [0, TheirEncoder::WITH_INDEXING, TheirEncoder::NEVER_INDEXED][random.usize(..3)];
                let huffman = random.u8(..4);
                let best = if random.bool() { TheirEncoder::BEST_FORMAT } else { 0 };
                encoder.encode((name, value, indexing | huffman | best), &mut block).expect("a valid field");
            }
            let section = decode(&mut decoder, &block).expect("their block is valid");
            assert_eq!(pairs_of(&section), fields);
        }
    }
}

#[test]
fn our_blocks_are_decoded_by_an_independent_decoder() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for _ in 0..20 {
        let mut encoder = Encoder::new();
        let mut decoder = TheirDecoder::with_dynamic_size(DEFAULT_TABLE_SIZE as u32);
        for _ in 0..200 {
            if random.u8(..10) == 0 {
                encoder.set_max_table_size(random.usize(..=DEFAULT_TABLE_SIZE));
            }
            let fields = random_fields(&mut random);
            let mut section = FieldSection::new();
            for (name, value) in &fields {
                section.push(name, value);
            }
            let mut block = Vec::new();
            encoder.encode(&section, &mut block);
            let mut received = Vec::new();
            decoder.decode(&mut block, &mut received).expect("our block is valid");
            let received: Pairs = received.into_iter().map(|(name, value, _)| (name, value)).collect();
            assert_eq!(received, fields);
        }
    }
}
