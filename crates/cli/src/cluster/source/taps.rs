//! Keeps the tap of a proxy open: when a tap ends, another one follows.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::cluster::connect::ClusterError;
use crate::cluster::printable::line;

/// A tap that ends sooner is not opened again: otherwise, the tool would open taps without end at a proxy that ends
/// each of them at once.
const TAP_MIN: Duration = Duration::from_secs(60);

/// Time between two taps of a proxy. The proxy needs up to 50 ms to notice that a tap has ended, and limits the number
/// of open taps.
const TAP_PAUSE: Duration = Duration::from_millis(100);

/// What the tool learns from a tap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tapped<'a> {
    /// A line that the proxy sent. An empty line, which the proxy sends at the start and while there are no calls, only
    /// shows that the tap is open.
    Line(&'a str),
    /// The tap ended, and the sentence says whether another tap follows. For users, without a full stop.
    Ended(String),
}

/// The line with which a proxy explains why it ends a tap.
#[derive(Deserialize)]
struct End {
    ended: String,
}

/// Returns the reason if the line explains why the proxy ends the tap.
pub(super) fn reason(text: &str) -> Option<String> {
    // Parse no lines of calls: a tap may have thousands of them in a second.
    let end: Option<End> = text.starts_with(r#"{"dropped":"#).then(|| serde_json::from_str(text).ok()).flatten();
    end.map(|end| line(&end.ended))
}

/// Runs `tap` again each time it ends after at least [`TAP_MIN`], and first calls `notify` with a sentence about the
/// gap. `tap` returns the reason for its end if the proxy named one. `name` names the proxy.
///
/// A proxy does not complete the answer of a tap when it shuts down, or after its time limit: such a tap ends with an
/// error. If the answer is complete and gives no reason, the tap is not opened again, and `notify` gets a sentence about
/// the end.
pub(super) async fn keep_open(
    name: &str,
    mut tap: impl AsyncFnMut() -> Result<Option<String>, ClusterError>,
    mut notify: impl FnMut(String),
) -> Result<(), ClusterError> {
    loop {
        let began = Instant::now();
        let ended = tap().await;
        let open_for = began.elapsed();
        let reason = match ended {
            Ok(None) => {
                notify(closed(name));
                return Ok(());
            }
            Err(error) if open_for < TAP_MIN => return Err(error),
            Err(_) => None,
            Ok(Some(reason)) if open_for < TAP_MIN => {
                let what = format!("the proxy of {name} ended the tap: {reason}");
                return Err(ClusterError::new(what, "run leno tap again, and read what it shows"));
            }
            Ok(reason) => reason,
        };
        notify(gap(name, open_for, reason.as_deref()));
        sleep(TAP_PAUSE).await;
    }
}

fn closed(name: &str) -> String {
    format!("the tap of {name} ended: the proxy closed it and gave no reason")
}

fn gap(name: &str, open_for: Duration, reason: Option<&str>) -> String {
    let minutes = open_for.as_secs() / 60;
    let because = reason.map(|reason| format!(", because {reason}")).unwrap_or_default();
    let sentence = format!("the tap of {name} ended after {minutes} min{because}");
    format!("{sentence}; trying to open it again; calls in between are not shown")
}

#[cfg(test)]
#[path = "taps_tests.rs"]
mod tests;
