//! Log lines on stderr: one per event, times in UTC, levels changeable at run time.
//!
//! `limit` keeps a peer from filling the log. `queue` keeps threads from waiting until the log's reader has read a
//! line.

mod limit;
mod queue;

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::util::TryInitError;
use tracing_subscriber::{Layer, Registry, fmt as lines, reload};

use limit::Limit;
use queue::Queue;

/// The queue of lines that are not yet written. A process has only one log.
static LINES: OnceLock<Queue> = OnceLock::new();

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text for people
    Plain,
    /// One JSON object per line
    Json,
}

/// The levels to log, for the whole program and for single tracing targets, with the text from which they were parsed.
#[derive(Debug, Clone)]
pub struct LogFilter {
    text: String,
    targets: Targets,
}

/// The text is not a list of levels.
#[derive(Debug, thiserror::Error)]
#[error("write off, error, warn, info, debug or trace, or a list like info,leno_proxy=debug")]
pub struct LogFilterError;

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<Self, LogFilterError> {
        let text = text.trim();
        // Reject a bare word that is not a level: it would be parsed as a target, and every other target would be
        // silent.
        let is_level = |item: &str| !item.is_empty() && item.parse::<LevelFilter>().is_ok();
        let is_clear = |item: &str| item.contains('=') || is_level(item);
        let targets = text.split(',').all(is_clear).then(|| text.parse().ok()).flatten();
        Ok(Self { text: text.to_owned(), targets: targets.ok_or(LogFilterError)? })
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Target of the log line that reports a change of the levels. Every filter lets this line through, so that no change
/// goes unnoticed.
const CHANGES: &str = "leno_admin::log_levels";

pub struct LogLevels {
    handle: reload::Handle<Targets, Registry>,
    text: RefCell<String>,
}

impl LogLevels {
    /// Creates the levels that `filter` asks for, and the layer that applies them to log lines.
    pub fn new(filter: LogFilter) -> (Self, reload::Layer<Targets, Registry>) {
        let (layer, handle) = reload::Layer::new(with_changes(filter.targets));
        (Self { handle, text: filter.text.into() }, layer)
    }

    /// Returns the current levels as text.
    pub fn text(&self) -> String {
        self.text.borrow().clone()
    }

    /// Changes the levels for every thread. Logs the change at WARN, whatever the levels are.
    ///
    /// # Errors
    /// If the log's subscriber, which applies the levels, no longer exists.
    pub fn set(&self, filter: LogFilter) -> Result<(), reload::Error> {
        self.handle.reload(with_changes(filter.targets))?;
        let from = self.text.replace(filter.text.clone());
        tracing::warn!(target: CHANGES, from, to = filter.text, "the log levels were changed through the admin endpoint");
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process already has a log.
    #[error("{0}")]
    Twice(#[from] TryInitError),
    /// The kernel refuses a thread for the writer.
    #[error("no thread to write it: {0}")]
    Thread(#[from] std::io::Error),
}

/// Adds [`CHANGES`] to a filter, so that the filter lets reports of level changes through.
fn with_changes(targets: Targets) -> Targets {
    targets.with_target(CHANGES, LevelFilter::WARN)
}

/// Starts the log of the whole process.
///
/// # Errors
/// If the process already has a log, or the kernel refuses a thread.
pub fn start(filter: LogFilter, format: LogFormat) -> Result<LogLevels, StartError> {
    let (levels, layer) = LogLevels::new(filter);
    let limit = Limit::default();
    let reported = limit.clone();
    let queue = Queue::start(std::io::stderr(), move || reported.report())?;
    // Do not report a failed write: the report would also go to stderr and also fail, which would end the program. The
    // program must continue even if the reader of the log is gone.
    let lines = lines::layer().with_writer(queue.clone()).with_ansi(false).log_internal_errors(false);
    let lines = match format {
        LogFormat::Plain => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(layer).with(lines.with_filter(limit)).try_init()?;
    let _ = LINES.set(queue);
    Ok(levels)
}

/// Waits, for at most a second, until every line that was logged before is written. Call it before the process ends.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush();
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
