//! The first bytes of a connection are a peer's: any are told apart, and an HTTP/1 request always gets its answer.
#![no_main]

use leno_proxy::worker::detect::{Spoken, detect};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|first: &[u8]| {
    let spoken = detect(first);
    assert_eq!(spoken == Spoken::Tls, first.starts_with(&[22, 3]));
    assert_eq!(spoken == Spoken::Unknown, spoken.farewell().is_empty());
    if spoken == Spoken::Http1 {
        assert!(first.first().is_some_and(u8::is_ascii_uppercase) && first.contains(&b' '));
    }

    // However much of a request has come, once its method is whole.
    let target: Vec<u8> = first.iter().copied().filter(u8::is_ascii_graphic).take(256).collect();
    let request = [b"OPTIONS /", target.as_slice(), b" HTTP/1.1\r\nhost: a\r\n\r\n"].concat();
    for come in "OPTIONS ".len()..=request.len() {
        let come = request.get(..come).unwrap_or_default();
        assert_eq!(detect(come), Spoken::Http1, "{}", come.escape_ascii());
    }
});
