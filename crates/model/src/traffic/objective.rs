//! Objectives (SLOs): the share of a method's calls that should succeed, and the share of the successful calls that
//! should be fast.
//!
//! An objective changes no call. The callers' proxies count the calls that miss the objective.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{HedgeDelay, Repeatable};
use crate::problem::quoted;
use crate::settings::format_duration;

/// Maximum number of lines in the objectives of one Service.
pub const OBJECTIVE_LINES_MAX: usize = 32;
/// Maximum length of a line in bytes. A line has a method's name and the objective for this method.
const LINE_MAX_BYTES: usize = 512;
/// The name of the line for all calls that no other line names.
const ALL: &str = "*";
/// HTTP methods that an objective may name, although the parser of [`Repeatable`] rejects them. [`Repeatable`] rejects
/// methods that are not safe or not worth hedging (RFC 9110 section 9.3, RFC 5789).
const NOT_REPEATABLE: [&str; 6] = ["POST", "PUT", "DELETE", "PATCH", "CONNECT", "TRACE"];
/// 100 % in thousandths of a percent.
const WHOLE: u32 = 100_000;
/// The shares of successful calls that an objective may set, in thousandths of a percent: 1 % to 99.999 %. With 100 %,
/// no call may fail, so no failure rate would be tolerable.
const SHARES: std::ops::RangeInclusive<u32> = 1_000..=99_999;
const EXAMPLE: &str = "write success 99.9 %, p99 50ms, or one of the two";

/// The objectives of a Service, by method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Objectives {
    /// 1 to [`OBJECTIVE_LINES_MAX`] lines with different methods, the most specific line first.
    lines: Box<[Line]>,
    /// The kind and name of the object that sets the objectives, for example `Service shop/cart`.
    pub set_by: Arc<str>,
}

/// One line of the objectives: the calls that the line selects, and the objective of these calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Line {
    /// The method, or a gRPC service with all its methods; `None` for all calls that no other line names.
    method: Option<Repeatable>,
    objective: Objective,
}

/// The objective of a method: a part for success, a part for latency, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    /// The share of calls that should succeed.
    pub success: Option<Share>,
    /// The share of the successful calls that should be fast, and the time limit for a fast call.
    pub latency: Option<LatencyObjective>,
}

/// A share of calls in thousandths of a percent: 1,000 to 99,999 in an objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

/// The latency objective: at least this share of the successful calls should take at most `bound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyObjective {
    /// The required share of fast calls: 50 % to 99.9 %.
    pub share: Share,
    /// The longest time of a fast call: 1 ms to 1 h.
    pub bound: Duration,
}

/// Why a text is not an objective, and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnObjective {
    pub what: String,
    pub fix: String,
}

impl Objectives {
    /// Reads one objective for each line of `text`: `shop.v1.Cart/Get: success 99.9 %, p99 50ms`. Instead of a method,
    /// a line may name all methods of a gRPC service (`shop.v1.Cart/*`), a method of HTTP (`GET`) or all other calls
    /// (`*`). A line without a method applies to all other calls.
    ///
    /// # Errors
    /// [`NotAnObjective`] for the first mistake.
    pub fn read(text: &str, set_by: Arc<str>) -> Result<Self, NotAnObjective> {
        let written: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if written.is_empty() {
            return Err(NotAnObjective::new("no objective", EXAMPLE));
        }
        if written.len() > OBJECTIVE_LINES_MAX {
            let fix = format!("use at most {OBJECTIVE_LINES_MAX}; shop.v1.Cart/* is a line for a whole gRPC service");
            return Err(NotAnObjective::new(format!("{} lines", written.len()), fix));
        }
        let mut lines: Vec<Line> = Vec::new();
        for text in written {
            let line = Line::from_str(text)?;
            if lines.iter().any(|other| other.method == line.method) {
                let what = format!("{} has two objectives", line.name());
                return Err(NotAnObjective::new(what, "remove one of the two lines"));
            }
            lines.push(line);
        }
        lines.sort_by_key(Line::rank);
        Ok(Self { lines: lines.into(), set_by })
    }

    /// Returns the objective of a method; `None` if no line applies to the method. `name` is the `:path` of a gRPC
    /// call, and the `:method` of any other call.
    pub fn of(&self, is_grpc: bool, name: &[u8]) -> Option<&Objective> {
        let is_match = |line: &&Line| line.method.as_ref().is_none_or(|method| method.is_match(is_grpc, name));
        self.lines.iter().find(is_match).map(|line| &line.objective)
    }

    /// Returns the objective of the line `*`. It also applies to calls that the metrics count without their method's
    /// name.
    pub fn of_others(&self) -> Option<&Objective> {
        self.lines.iter().find(|line| line.method.is_none()).map(|line| &line.objective)
    }
}

impl fmt::Display for Objectives {
    /// Writes the lines in the form that [`Objectives::read`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {}", line.name(), line.objective)?;
        }
        Ok(())
    }
}

impl Line {
    fn name(&self) -> String {
        self.method.as_ref().map_or_else(|| ALL.to_owned(), ToString::to_string)
    }

    /// Returns the sort key that puts the most specific line first: lines for one method, for a gRPC service, for all
    /// other calls.
    fn rank(&self) -> u8 {
        match &self.method {
            Some(Repeatable::Grpc(_) | Repeatable::Http(_)) => 0,
            Some(Repeatable::GrpcService(_)) => 1,
            None => 2,
        }
    }
}

impl FromStr for Line {
    type Err = NotAnObjective;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > LINE_MAX_BYTES {
            return Err(NotAnObjective::new(format!("a line of {} bytes", text.len()), EXAMPLE));
        }
        let (method, objective) = text.split_once(':').unwrap_or((ALL, text));
        Ok(Self { method: method_of(method.trim())?, objective: objective.parse()? })
    }
}

/// Parses the method or gRPC service of a line; `None` for `*`, all other calls.
fn method_of(name: &str) -> Result<Option<Repeatable>, NotAnObjective> {
    if name == ALL {
        return Ok(None);
    }
    if NOT_REPEATABLE.contains(&name) {
        return Ok(Some(Repeatable::Http(name.into())));
    }
    name.parse().map(Some).map_err(|_| {
        let fix = "write a gRPC method as shop.v1.Cart/Get, all of a service as shop.v1.Cart/*, a method of HTTP such as \
                   POST, or * for all other calls";
        NotAnObjective::new(format!("{} is not a method", quoted(name)), fix)
    })
}

impl FromStr for Objective {
    type Err = NotAnObjective;

    /// Reads `success 99.9 %, p99 50ms`, or one of the two parts.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut read = Self { success: None, latency: None };
        for part in text.split(',') {
            let part = part.trim();
            let (name, value) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
            let is_second = match name {
                "success" => read.success.replace(success(value.trim())?).is_some(),
                _ if name.starts_with('p') => read.latency.replace(latency(name, value.trim())?).is_some(),
                "" => return Err(NotAnObjective::new("a part of an objective is missing", EXAMPLE)),
                _ => return Err(NotAnObjective::new(format!("{} is not an objective", quoted(part)), EXAMPLE)),
            };
            if is_second {
                let fix = "use one objective for success and one for latency";
                return Err(NotAnObjective::new(format!("{} is one too many", quoted(part)), fix));
            }
        }
        Ok(read)
    }
}

/// Reads the share of calls that should succeed, such as `99.9 %`.
fn success(text: &str) -> Result<Share, NotAnObjective> {
    let number = text.strip_suffix('%').map(str::trim_end);
    number.and_then(thousandths).filter(|share| SHARES.contains(share)).map(Share).ok_or_else(|| {
        let fix = "write 1 % to 99.999 %, with at most three digits after the dot, as success 99.9 %";
        NotAnObjective::new(format!("{} is not a share of successful calls", quoted(text)), fix)
    })
}

/// Reads a decimal number, and returns it in thousandths: 99,900 for `99.9`. Allows two digits before the dot and three
/// digits after the dot.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number =
        |digits: &str, max| (1..=max).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
    (is_number(whole, 2) && is_number(part, 3)).then(|| format!("{whole}{part:0<3}").parse().ok()).flatten()
}

/// Parses a percentile, such as `p99`, and its bound, such as `50ms`. Uses the parser of [`HedgeDelay`], which reads
/// both forms.
fn latency(percentile: &str, bound: &str) -> Result<LatencyObjective, NotAnObjective> {
    let not = |text: &str, noun: &str, fix: &str| NotAnObjective::new(format!("{} is not {noun}", quoted(text)), fix);
    let share = match percentile.parse() {
        Ok(HedgeDelay::Percentile(permille)) => Share(u32::from(permille) * (WHOLE / 1_000)),
        Ok(HedgeDelay::Fixed(_)) => return Err(not(percentile, "a percentile", EXAMPLE)),
        Err(fix) => return Err(not(percentile, "a percentile", fix)),
    };
    match bound.parse() {
        Ok(HedgeDelay::Fixed(bound)) => Ok(LatencyObjective { share, bound }),
        _ => Err(not(bound, "the time of a call", "write a duration from 1ms to 1h, for example p99 50ms")),
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(success) = self.success {
            write!(f, "success {success} %")?;
        }
        let separator = if self.success.is_some() { ", " } else { "" };
        self.latency.map_or(Ok(()), |latency| write!(f, "{separator}{latency}"))
    }
}

impl fmt::Display for LatencyObjective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{} {}", self.share, format_duration(self.bound))
    }
}

impl Serialize for Objective {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Share {
    /// Returns the share in thousandths of a percent.
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// Converts a ratio from 0 to 1 to a share, rounded to thousandths of a percent.
    pub fn of_ratio(ratio: f64) -> Self {
        // The cast saturates: it cannot overflow.
        Self((ratio * f64::from(WHOLE)).round() as u32)
    }

    /// Converts thousandths of a percent to a ratio from 0 to 1.
    pub fn ratio(thousandths: u32) -> f64 {
        f64::from(thousandths) / f64::from(WHOLE)
    }
}

impl fmt::Display for Share {
    /// Writes the share as a number of percent, such as `99.9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1_000, self.0 % 1_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl NotAnObjective {
    fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }
}

#[cfg(test)]
#[path = "objective_tests.rs"]
mod tests;
