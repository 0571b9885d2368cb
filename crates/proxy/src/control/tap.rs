//! POST /tap: sends each finished call to the user, as a line of JSON.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use leno_admin::answer::{Answer, body, stream, text};
use leno_model::tap::TapSelection;
use leno_relay::tap::{MAX_TAPS, Tap};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};

use super::pages::ask;
use super::shared::Shared;

/// Interval at which lines are taken from the workers.
const EVERY: Duration = Duration::from_millis(50);
/// Time without a call after which an empty line is sent, because only a failed send shows that the user has left.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// Maximum number of pieces of the response that wait for the connection. Further lines stay in the tap, which drops
/// lines when it is full.
const PIECES: usize = 1;
/// Time after which the proxy ends a tap whose client reads nothing although lines wait for it, for example because
/// `leno tap` is suspended: the tap takes one of [`MAX_TAPS`] places.
const UNREAD_MAX: Duration = Duration::from_secs(30);

/// The open taps of the proxy: at most [`MAX_TAPS`].
#[derive(Default)]
pub(super) struct OpenTaps(Rc<Cell<usize>>);

/// A permit for one open tap; there are at most [`MAX_TAPS`] permits. Dropping this value returns the permit.
struct TapPlace(Rc<Cell<usize>>);

impl OpenTaps {
    fn begin(&self) -> Option<TapPlace> {
        if self.0.get() >= MAX_TAPS {
            return None;
        }
        self.0.set(self.0.get() + 1);
        Some(TapPlace(self.0.clone()))
    }
}

impl Drop for TapPlace {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A tap. Dropping this value closes the tap, so that the workers stop using it.
struct OpenTap(Arc<Tap>);

impl Drop for OpenTap {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Begins a tap. The request's body is a [`TapSelection`] in JSON; `{}` selects all calls. `caller` is the identity of
/// the user, for the log; `None` at the admin endpoint, whose users have no identity.
pub(super) async fn answer(request: Request<Incoming>, shared: &Shared, caller: Option<&str>) -> Answer {
    let selection = match body(request, "selection").await {
        Ok(json) => serde_json::from_slice::<TapSelection>(&json),
        Err(answer) => return answer,
    };
    let selection = match selection {
        Ok(selection) => selection,
        Err(error) => return text(StatusCode::BAD_REQUEST, format!("the selection is not understood: {error}\n")),
    };
    if selection.headers && !shared.allows_tap_headers {
        let why = "this proxy shows no headers; start it with --tap-headers, or annotate the namespace with \
                   leno.dev/tap-headers: allowed and restart its Pods\n";
        return text(StatusCode::FORBIDDEN, why);
    }
    let Some(place) = shared.taps.begin() else {
        return text(StatusCode::SERVICE_UNAVAILABLE, format!("{MAX_TAPS} taps are open already; end one of them\n"));
    };
    let tap = OpenTap(Tap::new(selection.clone()));
    // A worker that does not answer in time begins the tap later. If the user leaves during this wait, the server drops
    // this future, and so closes the tap.
    ask(shared, |worker| worker.begin_tap(tap.0.clone())).await;
    tracing::info!(?selection, caller, "a tap begins");
    // One place more, for the last line: the client may have left no other place free.
    let (sender, lines) = mpsc::channel(PIECES + 1);
    spawn_local(async move {
        let reason = send(&tap.0, &sender, UNREAD_MAX).await;
        drop((tap, place));
        tracing::info!(reason, "a tap ended");
    });
    stream(lines)
}

/// Sends lines until the user leaves, or reads nothing for `unread_max`. In the second case, sends the reason as the
/// last line, and returns it.
async fn send(tap: &Arc<Tap>, sender: &mpsc::Sender<Bytes>, unread_max: Duration) -> Option<String> {
    let last = sender.clone().try_reserve_owned().ok()?;
    let mut sent = Instant::now();
    // Send an empty line at once: the response's header is sent together with the first piece of the body.
    sender.send(Bytes::from_static(b"\n")).await.ok()?;
    loop {
        sleep(EVERY).await;
        // While the channel has no room, the lines stay in the tap.
        let Ok(room) = timeout(unread_max, sender.reserve()).await else {
            let reason = format!("the client read nothing for {} s", unread_max.as_secs());
            last.send(end(tap, &reason));
            return Some(reason);
        };
        let room = room.ok()?;
        let (mut lines, dropped) = tap.take();
        if dropped > 0 {
            lines.extend(format!("{{\"dropped\":{dropped}}}\n").into_bytes());
        }
        if lines.is_empty() {
            if sent.elapsed() < SIGN_OF_LIFE {
                continue;
            }
            lines.push(b'\n');
        }
        sent = Instant::now();
        room.send(lines.into());
    }
}

/// The last line of a tap: the number of calls that were not shown, and the reason why the tap ends.
fn end(tap: &Tap, reason: &str) -> Bytes {
    let (lines, dropped) = tap.take();
    let unread = lines.iter().filter(|byte| **byte == b'\n').count();
    // A `leno tap` of an older version reads only `dropped`.
    format!("{{\"dropped\":{},\"ended\":\"{reason}\"}}\n", dropped + unread as u64).into()
}

#[cfg(test)]
#[path = "tap_tests.rs"]
mod tests;
