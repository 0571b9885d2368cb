//! Fuzzes tokens, which any client in the cluster may send: the parser returns claims of limited size for any text, or
//! a short error.
#![no_main]

use std::time::SystemTime;

use leno_identity::claims::{AUDIENCES_MAX, Claims, TOKEN_MAX_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    read(text);
    // Most texts are not base64url, so the text also becomes the claims of a well-formed token.
    read(&format!("{}.{}.{}", encoded(br#"{"alg":"RS256"}"#), encoded(text.as_bytes()), encoded(b"signature")));
});

fn read(text: &str) {
    match Claims::read(text) {
        Ok(claims) => {
            let length = claims.issuer.len() + claims.subject.len() + claims.audiences.concat().len();
            assert!(length <= TOKEN_MAX_BYTES && claims.audiences.len() <= AUDIENCES_MAX);
            claims.is_expired(SystemTime::UNIX_EPOCH);
            claims.is_expired(SystemTime::now());
        }
        Err(error) => assert!(error.to_string().len() < 200),
    }
}

fn encoded(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |place| byte >> place & 1)).collect();
    let number = |group: &[u8]| (0..6).fold(0, |number, place| number << 1 | group.get(place).copied().unwrap_or(0));
    bits.chunks(6).map(|group| char::from(ALPHABET[usize::from(number(group))])).collect()
}
