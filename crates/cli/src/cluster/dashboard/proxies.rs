//! The data of the view of all proxies: whether they answer, their certificates, and their connection to the control
//! plane. No I/O; the current time is an argument.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::json;

use super::mesh::{Id, id};
use super::objective::Level;
use super::pages::clean;
use super::validity::Validity;
use crate::cluster::certificate::{relative, rfc3339};
use crate::cluster::printable::cut;
use crate::cluster::readings::{Member, Readings};
use crate::cluster::scrape::Scrape;
use crate::cluster::source::Growth;

/// Maximum number of proxies in one answer. If there are more, the answer has the proxies with the worst levels.
const PROXIES_MAX: usize = 2_000;

/// A row of the table of proxies.
#[derive(Debug, Serialize)]
struct Row {
    workload: Id,
    /// The proxy's name among the proxies of its workload; in a cluster, the name of its Pod.
    proxy: String,
    /// `silent` if the proxy does not answer; otherwise `new` before the second reading, and then `answers`.
    state: &'static str,
    /// Descriptions of the proxy's faults, for users.
    why: Vec<String>,
    /// The level of the worst fault in `why`.
    level: Level,
    certificate: Option<Shown>,
    anchor: Option<Shown>,
    /// `None` if the proxy needs no control plane.
    is_connected: Option<bool>,
    version: String,
}

/// A [`Validity`] in the form in which the table shows it.
#[derive(Debug, Serialize)]
struct Shown {
    /// The time at which the validity ends, in seconds since 1970.
    end_s: u64,
    /// The time at which the validity ends, in the format of RFC 3339; `None` after the year 9999.
    end: Option<String>,
    /// The time at which the validity ends, relative to now, for example `in 23 h`.
    text: String,
    level: Level,
}

/// Returns the rows of all proxies in JSON, the worst first.
pub(super) fn proxies(readings: &Readings, now: SystemTime) -> String {
    let mut rows: Vec<Row> = readings.proxies().map(|(member, growth)| row(member, growth, now)).collect();
    rows.sort_by(|a, b| (a.level, &a.workload, &a.proxy).cmp(&(b.level, &b.workload, &b.proxy)));
    let omitted = cut(&mut rows, PROXIES_MAX);
    clean(&json!({ "proxies": rows, "omitted": omitted }))
}

fn row(member: &Member, Growth { now: page, .. }: &Growth, now: SystemTime) -> Row {
    let shortened = Validity::of_shortened(&member.proxy, page);
    let mut certificate = Validity::of_certificate(page).map(|validity| Shown::of(&validity, now));
    if let Some(certificate) = certificate.as_mut().filter(|_| shortened.is_some()) {
        certificate.level = Level::Error;
    }
    let anchor = Validity::of_last_anchor(page).map(|validity| Shown::of(&validity, now));
    let is_connected = page.all("leno_control_plane_connected", &[]).next().map(|sample| sample.value != 0.0);
    let mistakes = page.sum("leno_config_problems", &[]);
    let of = |shown: &Option<Shown>| shown.as_ref().map_or(Level::Good, |shown| shown.level);
    let mistakes_text = format!("mistakes in its configuration files: {mistakes:.0}");
    let faults = [
        (member.silent.is_some(), Level::Error, member.silent.as_deref().unwrap_or_default()),
        (shortened.is_some(), Level::Error, "its certificate ends with its authority: renew the authority"),
        (
            shortened.is_none() && of(&certificate) != Level::Good,
            of(&certificate),
            "it could not renew its certificate",
        ),
        (of(&anchor) != Level::Good, of(&anchor), "rotate its last trust anchor"),
        (is_connected == Some(false), Level::Warning, "it is not connected to the control plane"),
        (mistakes > 0.0, Level::Error, &*mistakes_text),
    ];
    let faults: Vec<_> = faults.into_iter().filter(|(is_fault, ..)| *is_fault).collect();
    Row {
        workload: id(&member.proxy.namespace, &member.proxy.name),
        proxy: member.proxy.instance(),
        state: match (&member.silent, member.is_counted) {
            (Some(_), _) => "silent",
            (None, true) => "answers",
            (None, false) => "new",
        },
        level: faults.iter().map(|(_, level, _)| *level).min().unwrap_or(Level::Good),
        why: faults.into_iter().map(|(.., why)| why.to_owned()).collect(),
        certificate,
        anchor,
        is_connected,
        version: version(page),
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
