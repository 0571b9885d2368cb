//! Finds the end of an HTTP/1.1 answer's content (RFC 9112 section 6.3).

use httparse::{Header, Status};

use super::failure::Failure;

/// Longest answer that is read, its header section included; a little more than the longest payload.
const MAX_ANSWER_BYTES: usize = 17 << 20;
const MAX_TRAILERS: usize = 64;

/// How an answer's content ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The answer has this many bytes, its header section included.
    Until(usize),
    /// The content has chunks. The next chunk begins at this position of the answer.
    Chunks(usize),
    /// The answer ends with its connection.
    UntilClose,
}

impl Content {
    /// Determines how the content of an answer with this status and these header fields ends. The content begins at
    /// `start`, after the header section.
    ///
    /// # Errors
    /// If the content is too long, or its length is unclear.
    pub(super) fn of(status: u16, fields: &[Header], start: usize) -> Result<Self, Failure> {
        let named = |name: &str| fields.iter().rfind(|field| field.name.eq_ignore_ascii_case(name));
        if matches!(status, 100..=199 | 204 | 304) {
            return Ok(Self::Until(start));
        }
        if let Some(coding) = named("transfer-encoding") {
            return match coding.value.trim_ascii() {
                value if value.eq_ignore_ascii_case(b"chunked") => Ok(Self::Chunks(start)),
                value => Err(unknown("transfer-encoding", value)),
            };
        }
        let Some(length) = named("content-length") else { return Ok(Self::UntilClose) };
        let bytes = std::str::from_utf8(length.value).ok().and_then(|text| text.trim().parse::<usize>().ok());
        let bytes = bytes.ok_or_else(|| unknown("content-length", length.value))?;
        let whole = start.saturating_add(bytes);
        ensure_short(whole)?;
        Ok(Self::Until(whole))
    }

    /// Returns the length of the whole answer; `None` while `answer` is incomplete. Always returns `None` for an answer
    /// that ends with its connection.
    ///
    /// # Errors
    /// If the answer is too long, or a chunk is invalid.
    pub(super) fn end(&mut self, answer: &[u8]) -> Result<Option<usize>, Failure> {
        ensure_short(answer.len())?;
        match self {
            Self::Until(length) => Ok((answer.len() >= *length).then_some(*length)),
            Self::UntilClose => Ok(None),
            Self::Chunks(next) => end_of_chunks(answer, next),
        }
    }
}

/// Moves `next` to the first chunk that is not whole. Returns the end of the trailer section, if it has arrived.
fn end_of_chunks(answer: &[u8], next: &mut usize) -> Result<Option<usize>, Failure> {
    while let Some(rest) = answer.get(*next..) {
        let (size_line, size) = match httparse::parse_chunk_size(rest) {
            Ok(Status::Complete((size_line, size))) => (size_line, usize::try_from(size).unwrap_or(usize::MAX)),
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(Failure::protocol("the answer has an invalid chunk size")),
        };
        let content = next.saturating_add(size_line);
        if size == 0 {
            return end_of_trailers(answer.get(content..).unwrap_or_default()).map(|end| end.map(|end| content + end));
        }
        let end = content.saturating_add(size);
        ensure_short(end)?;
        match answer.get(end..).and_then(|rest| rest.first_chunk()) {
            Some(b"\r\n") => *next = end + 2,
            Some(_) => return Err(Failure::protocol("the answer has a chunk without a line break at its end")),
            None => return Ok(None),
        }
    }
    Ok(None)
}

fn end_of_trailers(rest: &[u8]) -> Result<Option<usize>, Failure> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_TRAILERS];
    match httparse::parse_headers(rest, &mut fields).map_err(Failure::protocol)? {
        Status::Complete((length, _)) => Ok(Some(length)),
        Status::Partial => Ok(None),
    }
}

fn ensure_short(bytes: usize) -> Result<(), Failure> {
    if bytes <= MAX_ANSWER_BYTES {
        return Ok(());
    }
    Err(Failure::protocol(format!("the answer has {bytes} bytes or more; the limit is {MAX_ANSWER_BYTES}")))
}

fn unknown(field: &str, value: &[u8]) -> Failure {
    Failure::protocol(format!("the answer has the {field} {:?}", String::from_utf8_lossy(value)))
}

#[cfg(test)]
#[path = "http1_content_tests.rs"]
mod tests;
