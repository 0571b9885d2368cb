//! The claims of a ServiceAccount token: a JSON Web Token (RFC 7519) that is parsed but not verified.
//!
//! Do not trust a token because of its claims: the signature is not checked here. Parsing only distinguishes obviously
//! invalid tokens from tokens that an API server may accept, so that arbitrary text does not cost the API server a
//! token review.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::de::{self, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum length of a token, in bytes. Kubernetes' tokens have about 1,000.
pub const TOKEN_MAX_BYTES: usize = 16 << 10;
/// Limit on the number of audiences in a token.
pub const AUDIENCES_MAX: usize = 16;
/// Tolerated difference between our clock and the API server's clock. [`Claims::is_expired`] returns `true` only when
/// this much time has passed since the expiry.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(5 * 60);

/// The claims of a token, unverified.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Claims {
    /// The cluster's issuer.
    #[serde(rename = "iss")]
    pub issuer: String,
    /// The user: `system:serviceaccount:<namespace>:<name>`.
    #[serde(rename = "sub")]
    pub subject: String,
    #[serde(rename = "aud", deserialize_with = "one_or_more")]
    pub audiences: Vec<String>,
    /// When the token expires, in seconds since 1970.
    #[serde(rename = "exp")]
    expires_s: f64,
}

/// The reason why a text is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    #[error("it has {0} bytes, and a token at most {TOKEN_MAX_BYTES}")]
    TooLong(usize),
    /// The text is not three base64url parts separated by dots.
    #[error("it is not a JSON Web Token of the form header.claims.signature")]
    Form,
    /// A part is not a JSON object, or lacks a claim that every token has.
    #[error("its claims iss, sub, aud and exp cannot be read")]
    Claims,
}

/// The header; only its form matters.
#[derive(Deserialize)]
struct Header {
    #[serde(rename = "alg")]
    _algorithm: String,
}

impl Claims {
    /// Parses a token.
    ///
    /// # Errors
    /// [`NoToken`] if the text does not have the form of a token.
    pub fn read(token: &str) -> Result<Self, NoToken> {
        if token.len() > TOKEN_MAX_BYTES {
            return Err(NoToken::TooLong(token.len()));
        }
        let mut parts = token.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NoToken::Form);
        };
        let decoded = |part| base64url(part).filter(|bytes| !bytes.is_empty()).ok_or(NoToken::Form);
        let (header, claims, _) = (decoded(header)?, decoded(claims)?, decoded(signature)?);
        let _: Header = serde_json::from_slice(&header).map_err(|_| NoToken::Claims)?;
        serde_json::from_slice(&claims).map_err(|_| NoToken::Claims)
    }

    /// Returns whether the token has certainly expired: `now` is more than `CLOCKS_DIFFER_MAX` after its expiry.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        let latest = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(CLOCKS_DIFFER_MAX);
        self.expires_s < latest.as_secs_f64()
    }
}

/// Decodes base64 in the form of tokens: the URL-safe alphabet without padding (RFC 7515 section 2).
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0;
        for &byte in group {
            bits = bits << 6 | u32::from(sextet(byte)?);
        }
        // A group of n characters of 6 bits each gives n - 1 bytes; the remaining bits are ignored.
        let length = group.len().checked_sub(1).filter(|length| *length > 0)?;
        let [_, decoded @ ..] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend(decoded.iter().take(length));
    }
    Some(bytes)
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

/// Reads the audiences, which are a list or a single text (RFC 7519 section 4.1.3).
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Audiences;

    impl<'de> Visitor<'de> for Audiences {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a text, or a list of at most {AUDIENCES_MAX}")
        }

        fn visit_str<E: de::Error>(self, one: &str) -> Result<Self::Value, E> {
            Ok(vec![one.to_owned()])
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
            let mut audiences = Vec::new();
            while audiences.len() < AUDIENCES_MAX {
                match list.next_element()? {
                    Some(audience) => audiences.push(audience),
                    None => return Ok(audiences),
                }
            }
            match list.next_element::<IgnoredAny>()? {
                Some(_) => Err(de::Error::invalid_length(AUDIENCES_MAX + 1, &self)),
                None => Ok(audiences),
            }
        }
    }

    deserializer.deserialize_any(Audiences)
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
