//! Log lines: to stderr, one per event, times in UTC, levels changeable while running.
//!
//! What a peer does can neither fill the log (`limit`) nor make a thread wait for the log's reader (`queue`).

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

/// The lines of the process's log that are not written yet; the log is one for the whole process.
static LINES: OnceLock<Queue> = OnceLock::new();

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Plain,
    /// One JSON object a line.
    Json,
}

/// Which levels are logged, for everything or by target, as it was written.
#[derive(Debug, Clone)]
pub struct LogFilter {
    text: String,
    targets: Targets,
}

/// The text is no list of levels.
#[derive(Debug, thiserror::Error)]
#[error("write off, error, warn, info, debug or trace, or a list like info,leno_proxy=debug")]
pub struct LogFilterError;

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<Self, LogFilterError> {
        let text = text.trim();
        // A bare word that is no level would name a target and so silence everything else.
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

/// The target of the line about a change of levels. Every filter lets it through, so no change goes unseen.
const CHANGES: &str = "leno_admin::log_levels";

/// The levels of a running log.
pub struct LogLevels {
    handle: reload::Handle<Targets, Registry>,
    text: RefCell<String>,
}

impl LogLevels {
    /// Levels, and the layer that obeys them for as long as it lives.
    pub fn new(filter: LogFilter) -> (Self, reload::Layer<Targets, Registry>) {
        let (layer, handle) = reload::Layer::new(with_changes(filter.targets));
        (Self { handle, text: filter.text.into() }, layer)
    }

    /// The levels in force, as they were written.
    pub fn text(&self) -> String {
        self.text.borrow().clone()
    }

    /// Puts other levels in force, for every thread, and logs that at WARN whatever the levels are.
    ///
    /// # Errors
    /// When the log has ended.
    pub fn set(&self, filter: LogFilter) -> Result<(), reload::Error> {
        self.handle.reload(with_changes(filter.targets))?;
        let from = self.text.replace(filter.text.clone());
        tracing::warn!(target: CHANGES, from, to = filter.text, "the log levels were changed through the admin endpoint");
        Ok(())
    }
}

/// Why the log could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process has a log already.
    #[error("{0}")]
    Twice(#[from] TryInitError),
    /// The kernel gives no thread to write it.
    #[error("no thread to write it: {0}")]
    Thread(#[from] std::io::Error),
}

/// A filter that lets the line about a change of levels through.
fn with_changes(targets: Targets) -> Targets {
    targets.with_target(CHANGES, LevelFilter::WARN)
}

/// Starts the log of the whole process.
///
/// # Errors
/// When the process has a log already, or the kernel gives no thread.
pub fn start(filter: LogFilter, format: LogFormat) -> Result<LogLevels, StartError> {
    let (levels, layer) = LogLevels::new(filter);
    let limit = Limit::default();
    let reported = limit.clone();
    let queue = Queue::start(std::io::stderr(), move || reported.report())?;
    // A log whose reader went away must not end the program, which is what complaining to stderr about it would do.
    let lines = lines::layer().with_writer(queue.clone()).with_ansi(false).log_internal_errors(false);
    let lines = match format {
        LogFormat::Plain => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(layer).with(lines.with_filter(limit)).try_init()?;
    let _ = LINES.set(queue);
    Ok(levels)
}

/// Waits until the lines so far are written, for a second at most. To be called before the process ends.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush();
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
