//! The first bytes of a connection are a peer's: any are told apart, and an HTTP/1 request always gets its answer.
#![no_main]

use leno_proxy::worker::detect::{Spoken, detect};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|first: &[u8]| {
    let spoken = detect(first);
    assert_eq!(spoken == Spoken::Tls, first.starts_with(&[22, 3]));
    assert_eq!(spoken == Spoken::Unknown, spoken.farewell().is_empty());
    if spoken == Spoken::Http1 {
        let method = first.split(|c| *c == b' ').next().unwrap_or_default();
        assert!(method.len() < first.len() && method.first().is_some_and(u8::is_ascii_uppercase));
    }

    let target: Vec<u8> = first.iter().copied().filter(u8::is_ascii_graphic).collect();
    let request = [b"OPTIONS /", target.as_slice(), b" HTTP/1.1\r\nhost: a\r\n\r\n"].concat();
    for cut in "OPTIONS ".len()..=request.len() {
        let seen = request.get(..cut).unwrap_or_default();
        let version_is_cut = seen.contains(&b'\n') || !seen.ends_with(b"\r");
        assert!(detect(seen) == Spoken::Http1 || !version_is_cut, "{}", seen.escape_ascii());
    }
});
