//! Fuzzes HPACK: the decoder decodes or rejects any bytes within its memory bounds. Decoded fields are the same after
//! they are encoded and decoded again.
#![no_main]

use leno_http2::fields::{Defects, FieldSection};
use leno_http2::hpack::{DEFAULT_TABLE_SIZE, Decoder, Encoder};
use libfuzzer_sys::fuzz_target;

const MAX_LIST_SIZE: usize = 8192;
/// Maximum memory of a section. The bound is generous for two reasons. A full list needs up to twice its size, because
/// vectors double as they grow. And the decoder reads a literal before it checks the size of the list.
const MAX_SECTION_BYTES: usize = 64 * 1024;
const MAX_TABLE_BYTES: usize = 16 * 1024;

// The input is a sequence of blocks that share a dynamic table. A byte before each block is its length.
fuzz_target!(|data: &[u8]| {
    let (mut decoder, mut encoder) = (Decoder::new(DEFAULT_TABLE_SIZE), Encoder::new());
    let mut peer = Decoder::new(DEFAULT_TABLE_SIZE);
    let mut rest = data;
    while let Some((&length, tail)) = rest.split_first() {
        let (block, tail) = tail.split_at(usize::from(length).min(tail.len()));
        rest = tail;
        let mut fields = FieldSection::new();
        if decoder.decode(block, MAX_LIST_SIZE, &mut fields).is_err() {
            return;
        }
        assert!(fields.capacity_bytes() <= MAX_SECTION_BYTES);
        assert!(decoder.memory_bytes() <= MAX_TABLE_BYTES && encoder.memory_bytes() <= MAX_TABLE_BYTES);
        assert_eq!(fields.list_size() > MAX_LIST_SIZE, fields.defects().contains(Defects::OVERSIZE));
        relay(&fields, &mut encoder, &mut peer);
    }
});

fn relay(fields: &FieldSection, encoder: &mut Encoder, peer: &mut Decoder) {
    let mut block = Vec::new();
    encoder.encode(fields, &mut block);
    let mut relayed = FieldSection::new();
    peer.decode(&block, MAX_LIST_SIZE, &mut relayed).expect("what the encoder made is valid");
    assert_eq!(fields.len(), relayed.len());
    for (sent, received) in fields.iter().zip(relayed.iter()) {
        assert_eq!((sent.name, sent.value, sent.known), (received.name, received.value, received.known));
        assert!(received.never_indexed || !sent.never_indexed);
    }
}
