//! The view of all proxies: whether they answer, their certificates, and their connection to the control plane.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::json;

use super::mesh::{Id, id};
use super::objective::Level;
use super::pages::clean;
use super::state::State;
use super::validity::Validity;
use crate::cluster::certificate::{relative, rfc3339};
use crate::cluster::readings::Member;
use crate::cluster::scrape::Scrape;
use crate::cluster::source::Growth;

/// Maximum number of proxies in one answer: the worst proxies.
const PROXIES_MAX: usize = 2_000;

/// A row of the table.
#[derive(Debug, Serialize)]
struct Row {
    workload: Id,
    /// Distinguishes the proxy from the other proxies of its workload; in a cluster, the name of its Pod.
    proxy: String,
    state: &'static str,
    /// Why the proxy does not answer.
    silent: Option<String>,
    certificate: Option<Shown>,
    /// Whether the certificate ends together with the authority that issued it.
    ends_with_authority: bool,
    anchor: Option<Shown>,
    /// `None` if the proxy needs no control plane.
    is_connected: Option<bool>,
    version: String,
    /// Number of mistakes in the configuration files that the proxy reads.
    mistakes: f64,
    /// The worst of the other fields.
    level: Level,
}

/// The cells of a [`Validity`].
#[derive(Debug, Serialize)]
struct Shown {
    /// The end in seconds since 1970.
    end_s: u64,
    /// The end as RFC 3339 writes it.
    end: Option<String>,
    /// The end as people say it, for example `in 23 h`.
    text: String,
    level: Level,
}

/// Returns the rows of all proxies in JSON, the worst first.
pub(super) fn proxies(state: &State) -> String {
    let readings = state.readings.borrow();
    let now = SystemTime::now();
    let mut rows: Vec<Row> = readings.proxies().map(|(member, growth)| row(member, growth, now)).collect();
    rows.sort_by(|a, b| (a.level, &a.workload, &a.proxy).cmp(&(b.level, &b.workload, &b.proxy)));
    let omitted = rows.len().saturating_sub(PROXIES_MAX);
    rows.truncate(PROXIES_MAX);
    clean(&json!({ "proxies": rows, "omitted": omitted }))
}

fn row(member: &Member, Growth { now: page, .. }: &Growth, now: SystemTime) -> Row {
    let ends_with_authority = member.proxy.pod().is_some()
        && Validity::of_certificate(page).is_some_and(|certificate| certificate.ends_with_authority());
    let certificate = Validity::of_certificate(page).map(|validity| Shown::of(&validity, now));
    let anchor = Validity::of_last_anchor(page).map(|validity| Shown::of(&validity, now));
    let is_connected = page.all("leno_control_plane_connected", &[]).next().map(|sample| sample.value != 0.0);
    let mistakes = page.sum("leno_config_problems", &[]);
    let levels = [
        certificate.as_ref().map(|shown| shown.level),
        anchor.as_ref().map(|shown| shown.level),
        (member.silent.is_some() || ends_with_authority || mistakes > 0.0).then_some(Level::Error),
        (is_connected == Some(false)).then_some(Level::Warning),
    ];
    Row {
        workload: id(&member.proxy.namespace, &member.proxy.name),
        proxy: member.proxy.instance(),
        state: match (&member.silent, member.is_counted) {
            (Some(_), _) => "silent",
            (None, true) => "answers",
            (None, false) => "new",
        },
        silent: member.silent.clone(),
        certificate,
        ends_with_authority,
        anchor,
        is_connected,
        version: version(page),
        mistakes,
        level: levels.into_iter().flatten().min().unwrap_or(Level::Good),
    }
}

fn version(page: &Scrape) -> String {
    page.all("leno_build_info", &[]).next().map(|sample| sample.label("version").to_owned()).unwrap_or_default()
}

impl Shown {
    fn of(validity: &Validity, now: SystemTime) -> Self {
        Self {
            end_s: validity.end.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            end: rfc3339(validity.end),
            text: relative(validity.end, now),
            level: validity.level(now),
        }
    }
}

#[cfg(test)]
#[path = "proxies_tests.rs"]
mod tests;
