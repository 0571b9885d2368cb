//! Answers the kubelet's probes on a separate thread, so that a translation that takes a second does not delay an
//! answer.
//!
//! `/live` nevertheless shows when the control plane hangs. The main task records once a second that it runs (a beat).
//! After [`SILENCE_MAX`] without a beat, `/live` answers 503.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use leno_admin::answer::{Answer, not_found, text, wrong_method};
use leno_install::names::ISSUER;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::drain::Phase;
use crate::kubernetes::State;

/// Interval between two beats of the main task.
const BEAT: Duration = Duration::from_secs(1);

/// The time without a beat after which `/live` fails. Translating the largest mesh takes a small part of this time.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The data for `/ready`: whether this replica serves clients and, while it starts, what it waits for.
#[derive(Clone)]
pub(crate) struct Readiness {
    pub(crate) state: watch::Receiver<Arc<State>>,
    pub(crate) phase: watch::Receiver<Phase>,
    /// Whether another program writes the Secret with the issuing authority.
    pub(crate) is_external: bool,
}

impl Readiness {
    /// The page `/ready`.
    pub(crate) fn answer(&self) -> Answer {
        match *self.phase.borrow() {
            Phase::Serving => text(StatusCode::OK, "ready\n"),
            Phase::Ending => text(StatusCode::SERVICE_UNAVAILABLE, "ending\n"),
            Phase::Starting => {
                let unlisted = self.state.borrow().unlisted();
                let missing = match (unlisted.is_empty(), self.is_external) {
                    (false, _) => unlisted.join(", "),
                    (true, false) => "its issuing authority".to_owned(),
                    (true, true) => {
                        format!(
                            "a valid authority in Secret {ISSUER}, which another program writes (--external-authority)"
                        )
                    }
                };
                text(StatusCode::SERVICE_UNAVAILABLE, format!("waiting for the cluster: {missing}\n"))
            }
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.phase.borrow() == Phase::Serving
    }
}

/// The time of the main task's last beat.
#[derive(Clone)]
pub(crate) struct Heart {
    started: Instant,
    last_beat_ms: Arc<AtomicU64>,
}

impl Heart {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), last_beat_ms: Arc::default() }
    }

    /// Records a beat every [`BEAT`], for as long as the main task polls this future.
    pub(crate) async fn beat(&self) -> Infallible {
        loop {
            self.last_beat_ms.store(self.ms_at(Instant::now()), Ordering::Relaxed);
            sleep(BEAT).await;
        }
    }

    /// A moment as milliseconds since `started`.
    fn ms_at(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }

    /// The page `/live`.
    fn answer(&self, now: Instant) -> Answer {
        let silent_ms = self.ms_at(now).saturating_sub(self.last_beat_ms.load(Ordering::Relaxed));
        if Duration::from_millis(silent_ms) < SILENCE_MAX {
            return text(StatusCode::OK, "live\n");
        }
        text(StatusCode::SERVICE_UNAVAILABLE, format!("nothing has run for {} s\n", silent_ms / 1_000))
    }
}

/// Answers probes on a new thread, until the process ends.
///
/// # Errors
/// If the thread or its runtime cannot be created.
pub(crate) fn answer_probes(listener: TcpListener, heart: Heart, readiness: Readiness) -> io::Result<()> {
    let listener = listener.into_std()?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _entered = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let serve = move || {
        LocalSet::new()
            .block_on(&runtime, leno_admin::serve(listener, async move |request| answer(&heart, &readiness, &request)))
    };
    thread::Builder::new().name("probes".to_owned()).spawn(serve)?;
    Ok(())
}

fn answer(heart: &Heart, readiness: &Readiness, request: &Request<Incoming>) -> Answer {
    match (request.uri().path(), request.method()) {
        ("/live", &Method::GET | &Method::HEAD) => heart.answer(Instant::now()),
        ("/ready", &Method::GET | &Method::HEAD) => readiness.answer(),
        ("/live" | "/ready", _) => wrong_method("GET, HEAD"),
        _ => not_found(),
    }
}

#[cfg(test)]
#[path = "probes_tests.rs"]
mod tests;
