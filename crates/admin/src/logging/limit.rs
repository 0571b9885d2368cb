//! Limits the number of lines that each log statement may write, so that a peer cannot make the log grow without bound.
//!
//! Each log statement in the code has its own limit for lines of level INFO and above. A program has a fixed number of
//! log statements, so these limits bound the whole log. If a line names a Kubernetes namespace, a lower limit applies to
//! the lines of this statement about this namespace. So the objects of one tenant, which may change all the time, do not
//! use up the lines about the objects of others. Lines of level DEBUG and TRACE have no limit here: an operator who
//! enables these levels wants all lines. `queue` limits the total bytes of waiting lines of every level.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

/// Maximum number of lines that one log statement writes in one [`WINDOW`].
pub(super) const LINES_MAX: u32 = 20;
const WINDOW: Duration = Duration::from_secs(1);

/// Maximum number of lines about one namespace that one log statement writes in one [`NAMESPACE_WINDOW`].
const NAMESPACE_LINES_MAX: u32 = 10;
const NAMESPACE_WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of namespaces whose lines are counted at the same time, over all log statements. Lines about further
/// namespaces have only the limit of their log statement.
const NAMESPACES_MAX: usize = 1_024;

/// The name of the field that contains the namespace of a line.
const NAMESPACE: &str = "namespace";

/// Decides which lines are written. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Limit(Arc<Mutex<Counts>>);

/// The counts of lines. [`Limit::report`] removes the counts whose windows have ended.
#[derive(Debug, Default)]
struct Counts {
    /// The lines of each log statement in the code (a tracing callsite).
    statements: HashMap<Identifier, Count>,
    /// The lines of each log statement about each namespace.
    namespaces: HashMap<(Identifier, Box<str>), Count>,
}

/// The number of lines of one log statement, or of its lines about one namespace.
#[derive(Debug)]
struct Count {
    metadata: &'static Metadata<'static>,
    window_began: Instant,
    lines: u32,
    left_out: u64,
}

/// Lines that were left out.
#[derive(Debug)]
struct LeftOut {
    metadata: &'static Metadata<'static>,
    /// The namespace whose limit left the lines out; `None` if the limit of the log statement did.
    namespace: Option<Box<str>>,
    lines: u64,
}

impl Count {
    fn new(metadata: &'static Metadata<'static>, now: Instant) -> Self {
        Self { metadata, window_began: now, lines: 0, left_out: 0 }
    }

    /// Counts a line. Returns whether it may be written.
    fn allows(&mut self, lines_max: u32, window: Duration, now: Instant) -> bool {
        // Begin no window before the report of the lines that the last one left out: it comes with the next tick. A busy
        // statement logs again before this tick. If its line began a window, no report would ever find a window that is
        // over.
        if self.is_over(window, now) && self.left_out == 0 {
            (self.window_began, self.lines) = (now, 0);
        }
        let is_allowed = self.lines < lines_max;
        match is_allowed {
            true => self.lines += 1,
            false => self.left_out += 1,
        }
        is_allowed
    }

    fn is_over(&self, window: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.window_began) >= window
    }
}

impl Counts {
    /// Counts a line about a namespace. Returns whether the limit of the namespace allows it.
    fn namespace_allows(&mut self, metadata: &'static Metadata<'static>, namespace: &str, now: Instant) -> bool {
        let key: (Identifier, Box<str>) = (metadata.callsite(), namespace.into());
        if self.namespaces.len() >= NAMESPACES_MAX && !self.namespaces.contains_key(&key) {
            return true;
        }
        let count = self.namespaces.entry(key).or_insert_with(|| Count::new(metadata, now));
        count.allows(NAMESPACE_LINES_MAX, NAMESPACE_WINDOW, now)
    }
}

impl Limit {
    /// Returns whether the log statement with this metadata may write a line now. `namespace` is the namespace of the
    /// line.
    fn allows(&self, metadata: &'static Metadata<'static>, namespace: Option<&str>, now: Instant) -> bool {
        let mut counts = self.lock();
        // First the limit of the namespace: the lines that it leaves out must not use up the lines of other namespaces.
        if namespace.is_some_and(|namespace| !counts.namespace_allows(metadata, namespace, now)) {
            return false;
        }
        let count = counts.statements.entry(metadata.callsite()).or_insert_with(|| Count::new(metadata, now));
        count.allows(LINES_MAX, WINDOW, now)
    }

    /// Logs, for each log statement and namespace, how many of its lines were left out in the windows that have ended.
    pub(super) fn report(&self) {
        for LeftOut { metadata, namespace, lines } in self.take_left_out(Instant::now()) {
            let (module, line) = (metadata.module_path().unwrap_or_default(), metadata.line().unwrap_or_default());
            match namespace {
                Some(namespace) => tracing::warn!(
                    "{lines} more log lines of {module}, line {line}, about namespace {namespace}, were left out: it logs too \
                     often"
                ),
                None => {
                    tracing::warn!("{lines} more log lines of {module}, line {line}, were left out: it logs too often");
                }
            }
        }
    }

    fn take_left_out(&self, now: Instant) -> Vec<LeftOut> {
        let mut counts = self.lock();
        let Counts { statements, namespaces } = &mut *counts;
        let statements = statements.extract_if(|_, count| count.is_over(WINDOW, now));
        let namespaces = namespaces.extract_if(|_, count| count.is_over(NAMESPACE_WINDOW, now));
        let of_statements = statements.map(|(_, count)| (None, count));
        let of_namespaces = namespaces.map(|((_, namespace), count)| (Some(namespace), count));
        let left_out = of_statements.chain(of_namespaces).filter(|(_, count)| count.left_out > 0);
        left_out
            .map(|(namespace, Count { metadata, left_out: lines, .. })| LeftOut { metadata, namespace, lines })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The namespace of a line; `None` if the line has no field [`NAMESPACE`].
#[derive(Default)]
struct Namespace(Option<String>);

impl Namespace {
    fn of(event: &Event<'_>) -> Self {
        let mut namespace = Self::default();
        // Most log statements do not have this field. Do not read the other fields of their lines.
        if event.metadata().fields().field(NAMESPACE).is_some() {
            event.record(&mut namespace);
        }
        namespace
    }
}

impl Visit for Namespace {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == NAMESPACE {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == NAMESPACE {
            self.0 = Some(format!("{value:?}"));
        }
    }
}

impl<S: Subscriber> Filter<S> for Limit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        *metadata.level() > Level::INFO || self.allows(metadata, Namespace::of(event).0.as_deref(), Instant::now())
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
