//! The annotations of a Service that are Leno's own.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::balance::Policy;
use crate::manifest::Review;
use crate::problem::quoted;
use crate::settings::{Settings, format_duration, parse_duration};
use crate::spelling::closest;

const PREFIX: &str = "leno.dev/";
const BALANCER: &str = "leno.dev/balancer";
const CONNECT_TIMEOUT: &str = "leno.dev/connect-timeout";
const MAX_CONNECTIONS: &str = "leno.dev/max-connections-per-endpoint";
const IDLE_TIMEOUT: &str = "leno.dev/idle-timeout";
const MAX_CONNECTION_AGE: &str = "leno.dev/max-connection-age";
const KNOWN: [&str; 5] = [BALANCER, CONNECT_TIMEOUT, MAX_CONNECTIONS, IDLE_TIMEOUT, MAX_CONNECTION_AGE];

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_CONNECTIONS_LIMIT: u16 = 1024;

/// Reads the annotations whose names begin with `leno.dev/`; each of them must be known.
pub(super) fn review(annotations: Option<&BTreeMap<String, String>>, review: &mut Review<'_>) -> (Policy, Settings) {
    let mut balancer = Policy::default();
    let mut settings = Settings::default();
    let ours = annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(PREFIX));
    for (key, value) in ours {
        match key.as_str() {
            BALANCER => match value.parse() {
                Ok(policy) => balancer = policy,
                Err(_) => {
                    let what = format!("{} is not a balancer", quoted(value));
                    let names = Policy::ALL.map(Policy::name).join(", ");
                    problem(review, key, what, &format!("use one of {names}"));
                }
            },
            CONNECT_TIMEOUT => {
                let range = (Duration::from_millis(10), 60 * SECOND);
                read_duration(review, key, value, range, |read| {
                    settings.connect_timeout = read;
                });
            }
            IDLE_TIMEOUT => {
                let range = (SECOND, DAY);
                read_duration(review, key, value, range, |read| {
                    settings.idle_timeout = read;
                });
            }
            MAX_CONNECTION_AGE => {
                let range = (SECOND, 7 * DAY);
                read_duration(review, key, value, range, |read| {
                    settings.max_connection_age = Some(read);
                });
            }
            MAX_CONNECTIONS => match value.parse() {
                Ok(count @ 1..=MAX_CONNECTIONS_LIMIT) => {
                    settings.max_connections_per_endpoint = count;
                }
                _ => {
                    let what = format!("{} is not a number of connections", quoted(value));
                    problem(review, key, what, &format!("use 1 to {MAX_CONNECTIONS_LIMIT}"));
                }
            },
            unknown => {
                let fix = match closest(unknown, KNOWN) {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => format!("use one of {}", KNOWN.join(", ")),
                };
                problem(review, key, "there is no such annotation".to_owned(), &fix);
            }
        }
    }
    (balancer, settings)
}

fn read_duration(
    review: &mut Review<'_>,
    key: &str,
    value: &str,
    (min, max): (Duration, Duration),
    set: impl FnOnce(Duration),
) {
    let range = format!("use {} to {}", format_duration(min), format_duration(max));
    match parse_duration(value) {
        Some(duration) if (min..=max).contains(&duration) => set(duration),
        Some(_) => problem(review, key, format!("{value} is out of range"), &range),
        None => {
            let what = format!("{} is not a duration such as 1m30s or 500ms", quoted(value));
            problem(review, key, what, &range);
        }
    }
}

fn problem(review: &mut Review<'_>, key: &str, what: String, fix: &str) {
    review.problem(&format!("metadata.annotations[\"{key}\"]"), what, fix);
}
