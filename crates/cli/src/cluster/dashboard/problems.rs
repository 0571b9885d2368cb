//! Finds the problems that a user should look at, and describes them in plain words, the worst first. No I/O; the
//! current time is an argument.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::configuration::{Configurations, Reported};
use super::denials::{Key, Policy, Row};
use super::mesh::{Id, Mesh, Node, id};
use super::objective::Level;
use super::slow::{called, slow};
use super::validity::Validity;
use crate::cluster::certificate::relative;
use crate::cluster::printable::{listed, proxies};
use crate::cluster::readings::{Member, Readings, SECOND};
use crate::cluster::source::{Growth, ProxyAt};
use crate::cluster::stat::methods;
use crate::cluster::stat::objective::Objective;
use crate::cluster::stat::peer::Destination;

/// If a Service's share of successful calls is below this limit, its problem has the severity error.
const SUCCESS_FAIR: f64 = 0.95;
/// If a Service's share of successful calls is below this limit, its problem has at least the severity warning.
const SUCCESS_GOOD: f64 = 0.99;
/// The burn rate of a part of an objective is a problem only if at least this many calls miss this part within
/// [`Facts::period`]. One failed call of a rarely called method proves little.
const MISSES_LEAST: f64 = 3.0;
/// Text for the callers' proxies in the description of a problem that they counted. Only they count the calls that
/// reach no server.
const CALLERS: &str = "its callers";
/// Maximum number of proxies that the description of one problem names.
const UNASKED_SHOWN_MAX: usize = 5;
/// Maximum number of problems of one kind. The last of them states how many more were omitted.
const OF_KIND_MAX: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Error,
    Warning,
    Note,
}

/// One problem.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Problem {
    pub(crate) severity: Severity,
    /// The kind of problem, for filters.
    pub(crate) kind: &'static str,
    pub(crate) what: String,
    /// The remedy. `leno problems` prints it too, so it names commands, and no element of the page.
    pub(crate) fix: String,
    /// The Service whose view in the dashboard shows the details.
    pub(crate) service: Option<String>,
}

/// The data that [`problems`] searches for problems.
pub(super) struct Facts<'a> {
    pub(super) readings: &'a Readings,
    pub(super) mesh: &'a Mesh,
    pub(super) methods: &'a [methods::Row],
    pub(super) denials: &'a [Row],
    pub(super) configuration: &'a Configurations,
    /// The options with which other `leno` commands read the same proxies, each after a space; `None` if only
    /// `leno dashboard` can reach these proxies.
    pub(super) options: Option<&'a str>,
    /// The period over which the counts per second are averaged.
    pub(super) period: Duration,
    pub(super) now: SystemTime,
}

/// All problems, the worst first.
pub(super) fn problems(facts: &Facts<'_>) -> Vec<Problem> {
    let mut all = Vec::new();
    for found in [
        silent(facts),
        failing(facts),
        burning(facts),
        configuration(facts),
        unread_configurations(facts),
        authority(facts),
        certificates(facts),
        unreachable(facts),
        limited(facts),
        denied(facts),
        refused(facts),
        slow(facts),
    ] {
        let omitted = found.len().saturating_sub(OF_KIND_MAX);
        all.extend(found.into_iter().take(OF_KIND_MAX));
        if let Some(last) = all.last_mut().filter(|_| omitted > 0) {
            last.what += &format!(" (and {omitted} more of this kind)");
        }
    }
    all.sort_by_key(|problem| problem.severity);
    all
}

fn silent(facts: &Facts<'_>) -> Vec<Problem> {
    let problem = |member: &Member| {
        let why = member.silent.clone()?;
        let service = id(&member.proxy.namespace, &member.proxy.name);
        Some(Problem {
            severity: Severity::Error,
            kind: "silent proxy",
            what: format!("The proxy {} does not answer: {why}", proxy(&member.proxy)),
            fix: "Check that the program runs. While it is silent, its calls are missing in the figures.".to_owned(),
            service: Some(service),
        })
    };
    facts.readings.members().filter_map(problem).collect()
}

/// Names a proxy and its workload, in the form `web-1 of shop/web`.
fn proxy(proxy: &ProxyAt) -> String {
    let (instance, workload) = (proxy.instance(), id(&proxy.namespace, &proxy.name));
    if instance == workload { instance } else { format!("{instance} of {workload}") }
}

/// Returns a sentence about how the user can see the failing methods and the failed calls of a Service. `by` names the
/// proxies that count the failures: [`CALLERS`], or the Service's own proxies.
fn how_to_see_failures(facts: &Facts<'_>, id: &str, by: &str) -> String {
    let Some(options) = facts.options else {
        return "leno dashboard shows which method fails, and has a live tap.".to_owned();
    };
    // Put the text into a command only if it is the name of a Service: a compromised proxy can write any text into its
    // metrics.
    let service = id.split_once('/').map(|(namespace, name)| format!("{name}.{namespace}"));
    let service = service.filter(|name| by == CALLERS && name.parse::<Destination>().is_ok());
    let to = service.map(|name| format!(" --to {name}")).unwrap_or_default();
    format!("leno stat methods{to}{options} shows which method fails, and leno tap --failed{options} shows the calls.")
}

/// Returns a sentence about how the user can see the calls that miss an objective. `part` is the part that they miss:
/// `latency`, or otherwise the share of successful calls.
fn how_to_see_misses(facts: &Facts<'_>, objective: &Objective, part: &str) -> String {
    match (facts.options, objective.latency_ms.filter(|_| part == "latency")) {
        (None, _) => "leno dashboard shows the method, and has a live tap.".to_owned(),
        (Some(options), None) => format!("leno tap --failed{options} shows the calls that fail."),
        (Some(options), Some(ms)) => {
            format!("leno tap --slower-than {ms:.0}ms{options} shows the calls that are slower.")
        }
    }
}

fn failing(facts: &Facts<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    for (id, node) in facts.mesh.nodes.iter().filter(|(_, node)| node.is_service) {
        // Take the lower success rate. If calls fail before they reach the Service's own proxies, only the callers'
        // proxies count the failures.
        let sides = [(&node.asked, CALLERS), (&node.served, "its own proxies")];
        let worst = sides.into_iter().filter_map(|(counts, by)| Some((counts.figures(SECOND).success_rate?, by)));
        let Some((success, by)) = worst.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        if success >= SUCCESS_GOOD {
            continue;
        }
        found.push((
            success,
            Problem {
                severity: if success < SUCCESS_FAIR { Severity::Error } else { Severity::Warning },
                kind: "failing calls",
                what: format!("{id} fails {:.1} % of its calls, as {by} count them", (1.0 - success) * 100.0),
                fix: how_to_see_failures(facts, id, by),
                service: Some(id.clone()),
            },
        ));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().map(|(_, problem)| problem).collect()
}

fn burning(facts: &Facts<'_>) -> Vec<Problem> {
    let burns = |row: &methods::Row| {
        let objective = row.objective.as_ref()?;
        // Select by misses before comparing burn rates: a part with a high burn rate and too few misses would otherwise
        // hide the other part.
        let (name, part) = objective.worse(|part| part.misses * facts.period.as_secs_f64() >= MISSES_LEAST)?;
        let burn = part.burn_rate?;
        let severity = match Level::of(burn) {
            Level::Error => Severity::Error,
            Level::Warning => Severity::Warning,
            Level::Good => return None,
        };
        let caller = id(&row.key.namespace, &row.key.name);
        let problem = Problem {
            severity,
            kind: "objective",
            what: format!(
                "{} called by {caller} at {} misses its objective ({}): {:.1} % of the calls miss {name}, {burn:.0} times \
                 as many as the objective allows",
                row.key.method,
                row.key.at,
                objective.text(),
                100.0 * part.missed().unwrap_or_default()
            ),
            fix: how_to_see_misses(facts, objective, name),
            service: Some(called(row)),
        };
        Some((burn, problem))
    };
    let mut found: Vec<_> = facts.methods.iter().filter_map(burns).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, problem)| problem).collect()
}

fn configuration(facts: &Facts<'_>) -> Vec<Problem> {
    let problem = |Reported { what, until_corrected, by }: &Reported| Problem {
        severity: Severity::Error,
        kind: "configuration",
        what: format!("{what} (reported by {by})"),
        fix: until_corrected.as_deref().map_or_else(|| "Correct the file.".to_owned(), sentence),
        service: None,
    };
    facts.configuration.problems.iter().map(problem).collect()
}

/// Makes a sentence of a clause: begins it with a capital letter, and ends it with a full stop.
fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

/// Reports the proxies that have problems with their configuration, but whose `/config` was not read, so that the
/// problems are unknown.
fn unread_configurations(facts: &Facts<'_>) -> Vec<Problem> {
    let Configurations { unread, unasked, .. } = facts.configuration;
    unread.iter().map(unread_configuration).chain(unasked_configurations(unasked)).collect()
}

fn unread_configuration((at, why): &(ProxyAt, String)) -> Problem {
    Problem {
        severity: Severity::Warning,
        kind: "configuration",
        what: format!("The proxy {} has problems of configuration, which could not be read: {why}", proxy(at)),
        fix: "Read them in the log of the proxy.".to_owned(),
        service: None,
    }
}

fn unasked_configurations(unasked: &[ProxyAt]) -> Option<Problem> {
    let shown: Vec<String> = unasked.iter().take(UNASKED_SHOWN_MAX).map(proxy).collect();
    (!unasked.is_empty()).then(|| Problem {
        severity: Severity::Warning,
        kind: "configuration",
        what: format!(
            "Problems of configuration were not read from {}, because there were too many or the time was over: {}",
            proxies(unasked.len()),
            listed(&shown, unasked.len() - shown.len())
        ),
        fix: "Read them in the logs of the proxies, or name fewer proxies.".to_owned(),
        service: None,
    })
}

/// Finds an authority that expires within a day. A certificate must not outlive its authority, so such an authority
/// issues certificates with a shortened lifetime. [`certificates`] does not find this problem: proxies renew even the
/// shortened certificates in time.
fn authority(facts: &Facts<'_>) -> Vec<Problem> {
    let shortened = facts
        .readings
        .proxies()
        .filter_map(|(member, growth)| Some((Validity::of_shortened(&member.proxy, &growth.now)?.end, member)));
    // Take the authority that expires last: if the authority was replaced, some proxies may still have a certificate
    // that the old authority issued.
    let Some((end, member)) = shortened.max_by_key(|(end, _)| *end) else { return Vec::new() };
    let ends = if end > facts.now { "expires" } else { "expired" };
    vec![Problem {
        severity: Severity::Error,
        kind: "certificate",
        what: format!("The authority that certified {} {ends} {}", proxy(&member.proxy), relative(end, facts.now)),
        fix: "All its certificates end with it. Renew the authority: leno check names it.".to_owned(),
        service: Some(id(&member.proxy.namespace, &member.proxy.name)),
    }]
}

fn certificates(facts: &Facts<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    for (member, Growth { now, .. }) in facts.readings.proxies() {
        let mut add = |validity: Option<Validity>, what: &str, fix: &str| {
            let Some(validity) = validity else { return };
            let (severity, ends) = match validity.level(facts.now) {
                Level::Error => (Severity::Error, "expired"),
                Level::Warning => (Severity::Warning, "expires"),
                Level::Good => return,
            };
            found.push(Problem {
                severity,
                kind: "certificate",
                what: format!("The {what} of {} {ends} {}", proxy(&member.proxy), relative(validity.end, facts.now)),
                fix: fix.to_owned(),
                service: Some(id(&member.proxy.namespace, &member.proxy.name)),
            });
        };
        add(
            Validity::of_certificate(now),
            "certificate",
            "The proxy could not renew it. Read the proxy's log, and check that its authority answers: leno check.",
        );
        add(Validity::of_last_anchor(now), "last trust anchor", "Rotate the trust anchor before that day.");
    }
    found
}

fn unreachable(facts: &Facts<'_>) -> Vec<Problem> {
    let cut: Vec<String> = facts
        .readings
        .proxies()
        .filter(|(_, growth)| growth.now.all("leno_control_plane_connected", &[]).any(|sample| sample.value == 0.0))
        .map(|(member, _)| id(&member.proxy.namespace, &member.proxy.name))
        .collect();
    let Some(first) = cut.first() else { return Vec::new() };
    let others = match cut.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    vec![Problem {
        severity: Severity::Warning,
        kind: "control plane",
        what: format!("The proxies of {first}{others} have no connection to the control plane"),
        fix: "Calls go on with the last configuration. Check that leno-control runs: leno check.".to_owned(),
        service: Some(first.clone()),
    }]
}

/// Finds proxies that request more names of Services from the control plane than its limits allow.
fn limited(facts: &Facts<'_>) -> Vec<Problem> {
    let problem = |(member, growth): (&Member, &Growth)| {
        let names = growth.now.sum("leno_control_plane_refused_names", &[]);
        (names > 0.0).then(|| Problem {
            severity: Severity::Warning,
            kind: "control plane",
            what: format!(
                "The control plane refuses {names:.0} names of the proxy {}, because of a limit, and sends no updates of them",
                proxy(&member.proxy)
            ),
            fix: "The log of leno-control names the limit. Call fewer addresses, or give leno-control more memory.".to_owned(),
            service: Some(id(&member.proxy.namespace, &member.proxy.name)),
        })
    };
    facts.readings.proxies().filter_map(problem).collect()
}

fn denied(facts: &Facts<'_>) -> Vec<Problem> {
    let problem = |row: &Row| {
        let Key { workload, port, caller, policy } = &row.key;
        let calls = if row.total == 1.0 { "1 call".to_owned() } else { format!("{:.0} calls", row.total) };
        Problem {
            severity: if row.is_recent { Severity::Warning } else { Severity::Note },
            kind: "denied calls",
            // Name no period: the count of a caller begins again if the caller returns after 10 minutes.
            what: format!("{workload} denied {calls} of {caller} on port {port}, because of {policy}"),
            fix: how_to_allow(&row.key),
            service: Some(workload.clone()),
        }
    };
    facts.denials.iter().map(problem).collect()
}

/// Returns a sentence about how the user can allow the caller of a denied call. A caller with an identity has a name
/// like `shop/web`.
fn how_to_allow(key: &Key) -> String {
    const LOOK: &str = "leno authz shows who may call; leno explain, which policy decides.";
    let Key { workload, port, caller, policy } = key;
    let identity = caller.split_once('/').map(|(namespace, account)| format!("ns/{namespace}/sa/{account}"));
    let add = match (policy, identity) {
        (Policy::Authorization(_) | Policy::Others, Some(identity)) => {
            format!("add {identity} to spec.allow[].identities of the policy")
        }
        (Policy::Authorization(_) | Policy::Others, None) => "add the caller to the policy".to_owned(),
        // Mention all other callers: an AuthorizationPolicy denies every caller that it does not list, even a caller
        // that the default policy allows.
        (Policy::Default(_), Some(identity)) => format!(
            "write an AuthorizationPolicy for port {port} of {workload} that allows {identity} and all other callers of \
             this port: it denies every caller that it does not allow"
        ),
        (Policy::Default(_), None) => format!(
            "give it an identity (a proxy in its Pod), or write an AuthorizationPolicy for port {port} of {workload} that \
             allows its network and all other callers of this port: it denies every caller that it does not allow"
        ),
    };
    format!("If the caller should be allowed, {add}. {LOOK}")
}

/// Finds denied calls to Services whose own proxies the dashboard does not read, so that only the callers' proxies
/// count the denials.
fn refused(facts: &Facts<'_>) -> Vec<Problem> {
    let problem = |(id, node): (&Id, &Node)| {
        let calls = node.asked.refused * facts.period.as_secs_f64();
        (node.proxies == 0 && calls >= 1.0).then(|| Problem {
            severity: Severity::Warning,
            kind: "denied calls",
            what: format!(
                "{id} denies {:.1} of the {:.1} calls a second that it gets from the callers watched here",
                node.asked.refused,
                node.asked.figures(SECOND).calls_per_second
            ),
            fix: format!(
                "leno explain says which policy decides, and leno authz in the namespace of {id} who may call. The \
                 application may also have answered 401, 403, UNAUTHENTICATED or PERMISSION_DENIED itself."
            ),
            service: Some(id.clone()),
        })
    };
    facts.mesh.nodes.iter().filter_map(problem).collect()
}

#[cfg(test)]
#[path = "problems_tests.rs"]
mod tests;
