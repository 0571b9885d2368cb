//! Checks the values of time limits, retries and retry budgets. Routes and policies write them in the same format.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::manifest::Review;
use crate::problem::quoted;
use crate::settings::parse_duration;
use crate::traffic::{BACKOFF_MAX, RETRIES_MAX};

/// Allowed intervals of a retry budget. With an interval of hours, the budget could save up the retries of hours, and
/// allow all of them at once.
const BUDGET_INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);
/// Maximum number of retries per second that a budget may always allow.
pub(super) const MIN_PER_SECOND_MAX: u32 = 1_000;

/// The reason why a value is invalid, and the fix.
pub(super) struct Fault {
    pub(super) what: String,
    pub(super) fix: String,
}

impl Fault {
    pub(super) fn new(what: String, fix: impl Into<String>) -> Self {
        Self { what, fix: fix.into() }
    }
}

/// Returns the value if it is valid. Otherwise, reports the mistake and returns `None`.
pub(super) fn valid<T>(field: &str, value: Result<T, Fault>, review: &mut Review<'_>) -> Option<T> {
    value.map_err(|Fault { what, fix }| review.problem(field, what, fix)).ok()
}

pub(super) fn number<N: TryFrom<i64> + PartialOrd + Display>(
    written: i64,
    allowed: RangeInclusive<N>,
) -> Result<N, Fault> {
    let number = N::try_from(written).ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| {
        let fix = format!("use {} to {}", allowed.start(), allowed.end());
        Fault::new(format!("{written} is too much or too little"), fix)
    })
}

pub(super) fn duration(text: &str) -> Result<Duration, Fault> {
    let not_one = || Fault::new(format!("{} is not a duration", quoted(text)), "write one such as 1m30s or 500ms");
    parse_duration(text).ok_or_else(not_one)
}

/// Sorts HTTP statuses, and checks that each of them indicates a failed request.
pub(super) fn http_codes(mut codes: Vec<u16>) -> Result<Box<[u16]>, Fault> {
    codes.sort_unstable();
    codes.dedup();
    match codes.iter().find(|code| !(400..600).contains(*code)) {
        None => Ok(codes.into()),
        Some(code) => {
            Err(Fault::new(format!("{code} is not a status of a failed request"), "use codes from 400 to 599"))
        }
    }
}

/// Checks the maximum number of retries of one request in a route, in which 0 turns retries off.
pub(super) fn retries(written: i64) -> Result<u8, Fault> {
    at_least(0, written, format!("use 0 to {RETRIES_MAX}"))
}

/// Checks the maximum number of retries of one request in a policy.
pub(super) fn attempts(written: i64) -> Result<u8, Fault> {
    at_least(1, written, format!("use 1 to {RETRIES_MAX}, or remove the field retry"))
}

fn at_least(least: u8, written: i64, fix: String) -> Result<u8, Fault> {
    let retries = u8::try_from(written).ok().filter(|retries| (least..=RETRIES_MAX).contains(retries));
    retries.ok_or_else(|| Fault::new(format!("{written} retries of one request"), fix))
}

/// Checks the pause before the first retry.
pub(super) fn backoff(pause: Duration) -> Result<Duration, Fault> {
    if pause > BACKOFF_MAX {
        let fix = format!("use at most {BACKOFF_MAX:?}");
        return Err(Fault::new(format!("a pause of {pause:?} before a retry"), fix));
    }
    Ok(pause)
}

/// Checks the percentage of a budget: the number of retries that it allows for each 100 calls.
pub(super) fn percent(written: i64) -> Result<u8, Fault> {
    number(written, 0..=100)
}

/// Checks the number of retries per second that a budget always allows.
pub(super) fn min_per_second(written: i64) -> Result<u32, Fault> {
    number(written, 0..=MIN_PER_SECOND_MAX)
}

/// Reads the interval of a retry budget. The budget counts the calls and retries within this interval.
pub(super) fn budget_interval(text: &str) -> Result<Duration, Fault> {
    let interval = duration(text)?;
    if !BUDGET_INTERVAL.contains(&interval) {
        let fix = format!("use {:?} to {:?}", BUDGET_INTERVAL.start(), BUDGET_INTERVAL.end());
        return Err(Fault::new("too short or too long".to_owned(), fix));
    }
    Ok(interval)
}

/// Checks that the time limit of an attempt is not longer than the time limit of the whole request.
pub(super) fn check_order(request: Option<Duration>, attempt: Option<Duration>) -> Result<(), Fault> {
    match (request, attempt) {
        (Some(request), Some(attempt)) if attempt > request => {
            let what = "longer than the whole request may take".to_owned();
            Err(Fault::new(what, "make it shorter than request"))
        }
        _ => Ok(()),
    }
}
