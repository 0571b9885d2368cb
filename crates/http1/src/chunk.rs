//! Chunk sizes (RFC 9112 section 7.1).

use crate::error::ConnectionError;

/// A chunk size with more digits than 64 bits need is rejected, even with leading zeros.
const MAX_DIGITS: usize = 16;

/// A parsed chunk size line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkLine {
    /// Bytes of the chunk; 0 for the last chunk.
    pub(crate) size: u64,
    /// Bytes of the chunk's extensions, which are ignored (section 7.1.1).
    pub(crate) extension_bytes: usize,
}

/// Parses a line with its CR LF.
pub(crate) fn parse_line(line: &[u8]) -> Result<ChunkLine, ConnectionError> {
    const MALFORMED: ConnectionError = ConnectionError { status: 400, why: "a chunk size is not valid" };
    let line = line.strip_suffix(b"\r\n").ok_or(MALFORMED)?;
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, extension) = line.split_at_checked(digits).ok_or(MALFORMED)?;
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return Err(MALFORMED);
    }
    if !extension.is_empty() && !extension.trim_ascii_start().starts_with(b";") {
        return Err(MALFORMED);
    }
    if !leno_http2::syntax::is_value(extension) {
        return Err(ConnectionError::bad("a chunk extension has a character that is not allowed"));
    }
    let size = digits.iter().try_fold(0u64, |size, &digit| {
        let value = char::from(digit).to_digit(16)?;
        size.checked_mul(16)?.checked_add(u64::from(value))
    });
    Ok(ChunkLine { size: size.ok_or(MALFORMED)?, extension_bytes: extension.len() })
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
