use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{CERTIFICATE, base64, block};

#[test]
fn base64_is_that_of_the_rfc() {
    let vectors =
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
    for (bytes, text) in vectors {
        assert_eq!(base64(bytes.as_bytes()).collect::<String>(), text);
    }
    assert_eq!(base64(&[0xfb, 0xff, 0xfe]).collect::<String>(), "+//+");
}

#[test]
fn bytes_of_every_length_are_read_back() {
    for length in 1..200_u8 {
        let bytes: Vec<u8> = (0..length).map(|index| index.wrapping_mul(37)).collect();
        let text = block(CERTIFICATE, &bytes);
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
        assert_eq!(CertificateDer::from_pem_slice(text.as_bytes()).expect("PEM").as_ref(), bytes);
    }
}
