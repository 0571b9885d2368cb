//! The examples of RFC 7541 Appendix C. C.1 is in `integer_tests`.

use super::testing::{Pairs, decode, entries_of, hex, pairs, pairs_of, section};
use super::{DEFAULT_TABLE_SIZE, Decoder, Encoder};

struct Step {
    block: &'static str,
    fields: &'static [(&'static str, &'static str)],
    /// The entries of the dynamic table after the block, newest first.
    table: &'static [(&'static str, &'static str)],
    table_size: usize,
}

const PLAIN_REQUESTS: [&str; 3] = [
    "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
    "8286 84be 5808 6e6f 2d63 6163 6865",
    "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
];
const HUFFMAN_REQUESTS: [&str; 3] = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
];
const PLAIN_RESPONSES: [&str; 3] = [
    "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 \
     2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
    "4803 3330 37c1 c0bf",
    "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d \
     54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 \
     5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
];
const HUFFMAN_RESPONSES: [&str; 3] = [
    "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
     2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
    "4883 640e ffc1 c0bf",
    "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab \
     77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f \
     9587 3160 65c0 03ed 4ee5 b106 3d50 07",
];

const FIRST_REQUEST: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
const SECOND_REQUEST: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
    ("cache-control", "no-cache"),
];
const THIRD_REQUEST: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/index.html"),
    (":authority", "www.example.com"),
    ("custom-key", "custom-value"),
];
const FIRST_DATE: (&str, &str) = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
const LATER_DATE: (&str, &str) = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
const LOCATION: (&str, &str) = ("location", "https://www.example.com");
const PRIVATE: (&str, &str) = ("cache-control", "private");
const COOKIE: (&str, &str) = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");

fn requests(blocks: [&'static str; 3]) -> [Step; 3] {
    let [first, second, third] = blocks;
    [
        Step { block: first, fields: FIRST_REQUEST, table: &[(":authority", "www.example.com")], table_size: 57 },
        Step {
            block: second,
            fields: SECOND_REQUEST,
            table: &[("cache-control", "no-cache"), (":authority", "www.example.com")],
            table_size: 110,
        },
        Step {
            block: third,
            fields: THIRD_REQUEST,
            table: &[("custom-key", "custom-value"), ("cache-control", "no-cache"), (":authority", "www.example.com")],
            table_size: 164,
        },
    ]
}

fn responses(blocks: [&'static str; 3]) -> [Step; 3] {
    let [first, second, third] = blocks;
    [
        Step {
            block: first,
            fields: &[(":status", "302"), PRIVATE, FIRST_DATE, LOCATION],
            table: &[LOCATION, FIRST_DATE, PRIVATE, (":status", "302")],
            table_size: 222,
        },
        Step {
            block: second,
            fields: &[(":status", "307"), PRIVATE, FIRST_DATE, LOCATION],
            table: &[(":status", "307"), LOCATION, FIRST_DATE, PRIVATE],
            table_size: 222,
        },
        Step {
            block: third,
            fields: &[(":status", "200"), PRIVATE, LATER_DATE, LOCATION, ("content-encoding", "gzip"), COOKIE],
            table: &[COOKIE, ("content-encoding", "gzip"), LATER_DATE],
            table_size: 215,
        },
    ]
}

fn size_of_entries(entries: &Pairs) -> usize {
    entries.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
}

fn check_decoding(max_table_size: usize, steps: &[Step]) {
    let mut decoder = Decoder::new(max_table_size);
    for step in steps {
        let section = decode(&mut decoder, &hex(step.block)).expect("the block is valid");
        assert_eq!(pairs_of(&section), pairs(step.fields));
        let entries = entries_of(&decoder.table);
        assert_eq!(entries, pairs(step.table));
        assert_eq!(size_of_entries(&entries), step.table_size);
    }
}

#[test]
fn c_2_1_literal_with_indexing_is_decoded_and_enters_the_table() {
    check_decoding(
        DEFAULT_TABLE_SIZE,
        &[Step {
            block: "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            fields: &[("custom-key", "custom-header")],
            table: &[("custom-key", "custom-header")],
            table_size: 55,
        }],
    );
}

#[test]
fn c_2_2_literal_without_indexing_is_coded_both_ways() {
    let block = "040c 2f73 616d 706c 652f 7061 7468";
    let fields = &[(":path", "/sample/path")];
    check_decoding(DEFAULT_TABLE_SIZE, &[Step { block, fields, table: &[], table_size: 0 }]);
    let mut encoded = Vec::new();
    Encoder::new().encode(&section(fields), &mut encoded);
    assert_eq!(encoded, hex(block));
}

#[test]
fn c_2_3_never_indexed_literal_is_coded_both_ways() {
    let block = hex("1008 7061 7373 776f 7264 0673 6563 7265 74");
    let mut decoder = Decoder::new(DEFAULT_TABLE_SIZE);
    let section = decode(&mut decoder, &block).expect("the block is valid");
    assert_eq!(pairs_of(&section), pairs(&[("password", "secret")]));
    assert!(section.iter().all(|field| field.never_indexed));
    assert!(entries_of(&decoder.table).is_empty());
    let mut encoded = Vec::new();
    Encoder::new().encode(&section, &mut encoded);
    assert_eq!(encoded, block);
}

#[test]
fn c_2_4_indexed_field_is_coded_both_ways() {
    let fields = &[(":method", "GET")];
    check_decoding(DEFAULT_TABLE_SIZE, &[Step { block: "82", fields, table: &[], table_size: 0 }]);
    let mut encoded = Vec::new();
    Encoder::new().encode(&section(fields), &mut encoded);
    assert_eq!(encoded, [0x82]);
}

#[test]
fn c_3_requests_without_huffman_are_decoded() {
    check_decoding(DEFAULT_TABLE_SIZE, &requests(PLAIN_REQUESTS));
}

#[test]
fn c_4_requests_with_huffman_are_decoded() {
    check_decoding(DEFAULT_TABLE_SIZE, &requests(HUFFMAN_REQUESTS));
}

#[test]
fn c_4_requests_are_encoded_byte_for_byte_once_their_fields_were_seen() {
    let mut encoder = Encoder::new();
    for step in requests(HUFFMAN_REQUESTS) {
        // Encode each section twice: our encoder inserts a field only at its second occurrence. The first encoding does
        // not change the table, so the second starts with the table of the RFC's example.
        let mut first_sight = Vec::new();
        encoder.encode(&section(step.fields), &mut first_sight);
        assert_ne!(first_sight, hex(step.block));
        let mut second_sight = Vec::new();
        encoder.encode(&section(step.fields), &mut second_sight);
        assert_eq!(second_sight, hex(step.block));
        assert_eq!(entries_of(&encoder.table), pairs(step.table));
    }
}

#[test]
fn c_5_responses_without_huffman_are_decoded_with_evictions() {
    check_decoding(256, &responses(PLAIN_RESPONSES));
}

#[test]
fn c_6_responses_with_huffman_are_decoded_with_evictions() {
    check_decoding(256, &responses(HUFFMAN_RESPONSES));
}
