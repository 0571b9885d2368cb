//! The lines that `leno lab load` writes to its coordinator.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::recording::Recording;
use crate::error::{Error, Result};

/// A step of a load in another process. Each event is one line of JSON. The order is:
/// - [`Event::Ready`], if the load awaits a signal
/// - [`Event::Connected`]
/// - [`Event::Measuring`]
/// - [`Event::Finished`] or [`Event::Failed`]
///
/// A load that fails skips its remaining steps, and ends with [`Event::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// All clients have connected, and the load waits for [`START`](super::START) on its standard input.
    Ready,
    /// All clients have connected, and the warm-up begins.
    Connected,
    /// The warm-up has ended.
    Measuring,
    /// The load has not ended. It writes this event once a second.
    Running {
        /// Calls answered since the start of the load, warm-up included.
        answered: u64,
    },
    /// The load has ended.
    Finished { recording: Box<Recording> },
    /// The load could not run to its end.
    Failed {
        /// The error, in one line.
        why: String,
    },
}

impl Event {
    /// Maximum length of a line, in bytes: the recording of 20 servers and 70 minutes has about 20 MiB.
    pub(crate) const LINE_MAX_BYTES: usize = 64 << 20;

    /// Parses a line that another process wrote.
    ///
    /// # Errors
    /// If the line is too long, or is no event.
    pub(crate) fn of_line(line: &[u8]) -> Result<Self> {
        let invalid = |why| Error::Message { what: "a line of a load in another process".to_owned(), why };
        if line.len() > Self::LINE_MAX_BYTES {
            return Err(invalid(format!("it has more than {} bytes", Self::LINE_MAX_BYTES)));
        }
        serde_json::from_slice(line).map_err(|error| invalid(error.to_string()))
    }

    /// Writes the event's line at once.
    ///
    /// # Errors
    /// If the output is closed.
    pub(super) fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        output.write_all(&line)?;
        output.flush()
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
