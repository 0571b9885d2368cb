//! Finds slow methods, for the list of problems. No I/O, no clock.

use std::collections::{BTreeMap, BTreeSet};

use super::detail::service_at;
use super::mesh::{Id, id};
use super::problems::{Facts, Problem, Severity};
use crate::cluster::stat::counts::percent;
use crate::cluster::stat::methods::{self, SLOW_MS};

/// If a method's mean number of messages per call is above this limit, the method is a stream. A stream is not slow
/// because it lasts long.
const UNARY_MESSAGES_MAX: f64 = 1.5;

/// Finds slow methods. The Service's own proxies and its callers' proxies count the same calls, so report each method
/// of a Service only once.
pub(super) fn slow(facts: &Facts<'_>) -> Vec<Problem> {
    let mut found = BTreeMap::<(Id, &str), Vec<Slow<'_>>>::new();
    for row in facts.methods {
        let Some(share) = row.slow_rate.filter(|_| is_slow(row)) else { continue };
        found.entry((called(row), &row.key.method)).or_default().push(Slow { share, row });
    }
    let problem = |((service, method), mut rows): ((Id, &str), Vec<Slow<'_>>)| {
        rows.sort_by(|a, b| b.share.total_cmp(&a.share));
        Some((rows.first()?.share, slow_method(facts, service, method, &rows)?))
    };
    let mut found: Vec<_> = found.into_iter().filter_map(problem).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, problem)| problem).collect()
}

/// A row with slow calls, and the share of slow calls among all calls, 0 to 1.
struct Slow<'a> {
    share: f64,
    row: &'a methods::Row,
}

/// Describes the problem of a slow method; `None` if `rows` is empty. `rows` has the counts of the Service's own
/// proxies and of its callers' proxies, the highest share of slow calls first.
fn slow_method(facts: &Facts<'_>, service: Id, method: &str, rows: &[Slow<'_>]) -> Option<Problem> {
    let worst = rows.first()?;
    let own = rows.iter().find(|slow| slow.row.key.direction == "inbound");
    // Ignore the Service's own counts if their share of slow calls is less than half of the highest share. Then the
    // callers wait much longer than the application takes, for example because of the network.
    let own = own.filter(|own| own.share * 2.0 >= worst.share);
    let callers: BTreeSet<Id> =
        rows.iter().filter(|slow| slow.row.key.direction != "inbound").map(|slow| caller(slow.row)).collect();
    let Slow { share, row } = own.unwrap_or(worst);
    let (for_whom, whose) = match own {
        Some(_) => (String::new(), "its calls".to_owned()),
        None => {
            let others = match callers.len().saturating_sub(1) {
                0 => String::new(),
                1 => " and 1 more caller".to_owned(),
                others => format!(" and {others} more callers"),
            };
            (format!(" for {}{others}", caller(row)), format!("the calls of {}", caller(row)))
        }
    };
    let place = own.map(|_| "The time passes in the application, or in the calls that it makes.".to_owned());
    let look = (!callers.is_empty()).then(|| match facts.options {
        // Suggest a tap of calls slower than [`SLOW_MS`], not slower than the p99: the p99 is higher, so the tap would
        // omit most of the slow calls.
        Some(options) => {
            format!("leno tap --slower-than {SLOW_MS:.0}ms{options} shows which endpoints answer the slow calls.")
        }
        None => "leno dashboard shows the Service's endpoints.".to_owned(),
    });
    Some(Problem {
        severity: Severity::Note,
        kind: "slow method",
        what: format!(
            "{method} of {service} is slow{for_whom}: {} of {whose} take longer than {SLOW_MS:.0} ms; p99 is {}",
            percent(Some(*share)),
            p99(row)
        ),
        fix: [place, look].into_iter().flatten().collect::<Vec<_>>().join(" "),
        service: Some(service),
    })
}

/// The workload whose proxies counted the calls of a row.
fn caller(row: &methods::Row) -> Id {
    id(&row.key.namespace, &row.key.name)
}

/// The p99 as text: the bounds of the histogram bucket that contains it.
fn p99(row: &methods::Row) -> String {
    match row.p99_between_ms {
        Some((low, Some(high))) => format!("between {low:.0} and {high:.0} ms"),
        Some((low, None)) => format!("above {low:.0} ms"),
        None => "unknown".to_owned(),
    }
}

/// The Service that received the calls of a row.
pub(super) fn called(row: &methods::Row) -> Id {
    match &*row.key.direction {
        "inbound" => caller(row),
        _ => service_at(&row.key.at),
    }
}

/// Whether a unary method is slow: its p99 is above [`SLOW_MS`].
fn is_slow(row: &methods::Row) -> bool {
    let rate = row.figures.calls_per_second;
    let is_stream = row.request_messages_per_second.max(row.response_messages_per_second) > UNARY_MESSAGES_MAX * rate;
    row.figures.p99_ms.is_some_and(|p99| p99 > SLOW_MS) && !is_stream
}
