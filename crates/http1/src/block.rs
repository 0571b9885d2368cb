//! Collects lines and sections from bytes that arrive in pieces. The engine stores no other unparsed bytes of the peer.
//!
//! Lines end with CR LF. A bare line feed is rejected, because programs disagree on whether it ends a line (RFC 9112
//! section 2.2).

use std::borrow::Cow;

use memchr::memchr;

/// The unit to collect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One line.
    Line,
    /// All lines up to the first empty line, which is included.
    Section,
}

/// The reason why a line or section is rejected before it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A line feed without a carriage return.
    BareLineFeed,
    /// The block exceeds the size limit; `in_first_line` is true if the end of its first line has not arrived.
    TooLong { in_first_line: bool },
}

/// The buffered beginning of a line or section whose end has not arrived; empty between blocks.
#[derive(Debug, Default)]
pub(crate) struct Incomplete {
    bytes: Vec<u8>,
    /// Bytes of the last, incomplete line.
    line_bytes: usize,
    /// Whether at least one line is complete.
    has_line: bool,
}

impl Incomplete {
    /// The allocated memory, in bytes.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes a block of at most `max_bytes` from the front of `input`. Copies nothing if `input` contains the whole
    /// block. If the end of the block has not arrived, consumes the whole input and returns `None`.
    pub(crate) fn take<'a>(
        &mut self,
        input: &mut &'a [u8],
        kind: Kind,
        max_bytes: usize,
    ) -> Result<Option<Cow<'a, [u8]>>, Fault> {
        let end = self.find_end(input, kind)?;
        let taken = end.unwrap_or(input.len());
        if self.bytes.len() + taken > max_bytes {
            return Err(Fault::TooLong { in_first_line: !self.has_line });
        }
        let (front, rest) = input.split_at_checked(taken).unwrap_or((input, &[]));
        *input = rest;
        if end.is_none() {
            self.bytes.extend_from_slice(front);
            return Ok(None);
        }
        (self.line_bytes, self.has_line) = (0, false);
        if self.bytes.is_empty() {
            return Ok(Some(Cow::Borrowed(front)));
        }
        self.bytes.extend_from_slice(front);
        Ok(Some(Cow::Owned(std::mem::take(&mut self.bytes))))
    }

    /// Finds the end of the block in `input`.
    fn find_end(&mut self, input: &[u8], kind: Kind) -> Result<Option<usize>, Fault> {
        let mut start = 0;
        while let Some(length) = input.get(start..).and_then(|rest| memchr(b'\n', rest)) {
            let line_feed = start + length;
            let before = match line_feed.checked_sub(1) {
                Some(at) => input.get(at),
                None => self.bytes.last(),
            };
            let line_bytes = self.line_bytes + length;
            if before != Some(&b'\r') || line_bytes == 0 {
                return Err(Fault::BareLineFeed);
            }
            start = line_feed + 1;
            self.line_bytes = 0;
            if kind == Kind::Line || line_bytes == 1 {
                return Ok(Some(start));
            }
            self.has_line = true;
        }
        self.line_bytes += input.len() - start;
        Ok(None)
    }
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
