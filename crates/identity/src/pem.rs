//! Writes PEM text (RFC 7468). rustls reads PEM and does not write it.

use std::fmt::Write as _;

/// Characters in a line of PEM text.
const LINE_CHARS: usize = 64;

pub(crate) const CERTIFICATE: &str = "CERTIFICATE";
/// A key in PKCS #8.
pub(crate) const PRIVATE_KEY: &str = "PRIVATE KEY";

/// Formats one PEM block.
pub(crate) fn block(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for (index, c) in base64(der).enumerate() {
        if index > 0 && index % LINE_CHARS == 0 {
            text.push('\n');
        }
        text.push(c);
    }
    let _ = writeln!(text, "\n-----END {label}-----");
    text
}

/// Encodes bytes in Base64 with padding (RFC 4648 section 4).
fn base64(bytes: &[u8]) -> impl Iterator<Item = char> {
    bytes.chunks(3).flat_map(|group| {
        let [a, b, c] = [0, 1, 2].map(|index| group.get(index).copied().unwrap_or_default());
        let sextets = [a >> 2, a << 4 | b >> 4, b << 2 | c >> 6, c];
        let written = group.len() + 1;
        (0..4).map(move |index| if index < written { digit(sextets[index]) } else { '=' })
    })
}

/// Returns the Base64 digit of the lower six bits.
fn digit(sextet: u8) -> char {
    let sextet = sextet & 0x3f;
    char::from(match sextet {
        0..26 => b'A' + sextet,
        26..52 => b'a' + (sextet - 26),
        52..62 => b'0' + (sextet - 52),
        62 => b'+',
        _ => b'/',
    })
}

#[cfg(test)]
#[path = "pem_tests.rs"]
mod tests;
