//! Fuzzes protocol detection on the first bytes of a connection, which a peer chooses: any bytes get a result, and
//! further bytes never change it.
#![no_main]

use leno_relay::detect::{DETECT_BYTES, Detected, detect};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|first: &[u8]| {
    let mut decided: Option<Detected> = None;
    for come in 0..=first.len().min(DETECT_BYTES) {
        let detected = detect(first.get(..come).unwrap_or_default());
        if let Some(decided) = &decided {
            assert_eq!(*decided, detected, "{come} bytes");
        } else if detected != Detected::Undecided {
            decided = Some(detected);
        }
    }
    assert!(decided.is_some() || first.len() < DETECT_BYTES);

    // No prefix of an HTTP/1 request is detected as another protocol.
    let target: Vec<u8> = first.iter().copied().filter(u8::is_ascii_graphic).take(256).collect();
    let request = [b"OPTIONS /", target.as_slice(), b" HTTP/1.1\r\nhost: a\r\n\r\n"].concat();
    for come in 0..=request.len() {
        let detected = detect(request.get(..come).unwrap_or_default());
        assert!(matches!(detected, Detected::Undecided | Detected::Http1), "{come} bytes: {detected:?}");
    }
});
