//! Problems with the configuration that proxies have loaded. The dashboard reads them from `/config` of the proxies
//! whose metrics report such problems.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tokio::time::timeout;

use super::state::State;
use crate::cluster::printable::line;
use crate::cluster::readings::Readings;
use crate::cluster::source::ProxyAt;

/// Maximum time to read one `/config`.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Maximum number of `/config` pages that [`Configurations::read`] reads.
const PROXIES_MAX: usize = 64;
/// Maximum number of `/config` pages that are read at the same time.
const AT_ONCE: usize = 8;
/// Maximum number of problems that are read from one `/config`.
const PROBLEMS_MAX: usize = 20;

/// The problems with their configuration that proxies reported.
#[derive(Debug, Default)]
pub(super) struct Configurations {
    pub(super) problems: Vec<Reported>,
    /// Proxies whose problems are unknown, because their `/config` could not be read, each with the reason.
    pub(super) unread: Vec<(ProxyAt, String)>,
    /// Proxies that report problems, but whose `/config` the dashboard did not request: there were too many such
    /// proxies, or [`collect_for`](super::collect::collect_for) ended.
    pub(super) unasked: Vec<ProxyAt>,
    /// Every proxy whose `/config` was requested.
    pub(super) asked: BTreeSet<ProxyAt>,
}

/// A problem that a proxy has reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reported {
    pub(super) what: String,
    /// What of the file is in force until the file is corrected; `None` if the problem does not make the file invalid.
    pub(super) until_corrected: Option<String>,
    /// The workload of the proxy.
    pub(super) by: String,
}

/// The fields of `/config` that the dashboard reads.
#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    problems: Vec<ConfigurationProblem>,
    #[serde(default)]
    files: Vec<ConfigurationFile>,
}

#[derive(Deserialize)]
struct ConfigurationFile {
    path: String,
    until_corrected: Option<String>,
}

#[derive(Deserialize)]
struct ConfigurationProblem {
    #[serde(default)]
    file: String,
    #[serde(default)]
    line: u64,
    #[serde(default)]
    object: String,
    #[serde(default)]
    field: String,
    what: String,
    fix: String,
}

impl Configurations {
    /// Reads `/config` of the proxies whose metrics report problems, at most [`PROXIES_MAX`] of them.
    pub(super) async fn read(state: &State) -> Self {
        let mut faulty = faulty(&state.readings.borrow());
        let unasked = faulty.split_off(faulty.len().min(PROXIES_MAX));
        let ask = |proxy: ProxyAt| async move {
            let page = match timeout(ANSWER_MAX, state.proxies.page(&proxy, "/config")).await {
                Ok(page) => page.map_err(|error| error.what),
                Err(_) => Err(format!("it did not send its /config within {} s", ANSWER_MAX.as_secs())),
            };
            (proxy, page)
        };
        let asked = faulty.iter().cloned().collect();
        let pages: Vec<_> = stream::iter(faulty).map(ask).buffered(AT_ONCE).collect().await;
        Self { asked, unasked, ..Self::of(pages) }
    }

    fn of(pages: Vec<(ProxyAt, Result<String, String>)>) -> Self {
        let (mut found, mut unread) = (BTreeMap::<(String, Option<String>), String>::new(), Vec::new());
        for (proxy, page) in pages {
            let problems = page.and_then(|page| {
                let read = serde_json::from_str::<Configuration>(&page);
                read.map_err(|error| format!("its /config cannot be read: {error}"))
            });
            match problems {
                Ok(configuration) => {
                    for problem in configuration.problems.iter().take(PROBLEMS_MAX) {
                        // Keep one copy of a problem: all proxies that read the same file report it. But a proxy that
                        // has started since the mistake never had a valid version of the file.
                        let file = configuration.files.iter().find(|file| file.path == problem.file);
                        let until_corrected = file.and_then(|file| file.until_corrected.clone());
                        found.entry((problem.text(), until_corrected)).or_insert_with(|| proxy.name.clone());
                    }
                }
                Err(why) => unread.push((proxy, line(&why))),
            }
        }
        let reported = |((what, until_corrected), by)| Reported { what, until_corrected, by };
        let problems = found.into_iter().map(reported).collect();
        Self { problems, unread, ..Self::default() }
    }

    /// The proxies that have begun to report problems since the last [`Configurations::read`], so that they are neither
    /// in `asked` nor in `unasked`.
    pub(super) fn missing(&self, readings: &Readings) -> Vec<ProxyAt> {
        let faulty = faulty(readings).into_iter();
        faulty.filter(|proxy| !self.asked.contains(proxy) && !self.unasked.contains(proxy)).collect()
    }
}

/// The proxies whose metrics report problems with their configuration.
fn faulty(readings: &Readings) -> Vec<ProxyAt> {
    let faulty = readings.proxies().filter(|(_, growth)| growth.now.sum("leno_config_problems", &[]) > 0.0);
    faulty.map(|(member, _)| member.proxy.clone()).collect()
}

impl ConfigurationProblem {
    fn text(&self) -> String {
        let Self { file, line, object, field, what, fix } = self;
        let place = match (object.is_empty(), field.is_empty()) {
            (true, true) => String::new(),
            (false, true) => format!("{object}: "),
            (true, false) => format!("{field}: "),
            (false, false) => format!("{field} of {object}: "),
        };
        format!("{file}:{line}: {place}{what}; {fix}")
    }
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
mod tests;
