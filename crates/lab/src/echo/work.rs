//! The simulated work of an echo server.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tonic::{Code, Status};

/// Longest delay of one call, in ms.
pub(super) const MAX_DELAY_MS: u32 = 60_000;

/// The duration of calls, and whether calls fail. Both may change while calls run.
#[derive(Debug)]
pub(super) struct Work {
    delay_ms: AtomicU32,
    spread_ms: AtomicU32,
    slow_percent: AtomicU32,
    slow_ms: AtomicU32,
    /// The gRPC status code of the calls that fail; 0 if all calls succeed.
    failure: AtomicU32,
    fail_percent: AtomicU32,
    calls: AtomicU64,
    messages: AtomicU64,
}

impl Work {
    /// Every call takes `delay_ms` plus a random time of up to `spread_ms`.
    pub(super) fn new(delay_ms: u32, spread_ms: u32) -> Self {
        Self {
            delay_ms: AtomicU32::new(delay_ms),
            spread_ms: AtomicU32::new(spread_ms),
            slow_percent: AtomicU32::new(0),
            slow_ms: AtomicU32::new(0),
            failure: AtomicU32::new(0),
            fail_percent: AtomicU32::new(100),
            calls: AtomicU64::new(0),
            messages: AtomicU64::new(0),
        }
    }

    /// Changes the duration of later calls.
    pub(super) fn set(&self, delay_ms: u32, spread_ms: u32) {
        self.delay_ms.store(delay_ms, Ordering::Relaxed);
        self.spread_ms.store(spread_ms, Ordering::Relaxed);
    }

    /// Makes `percent` of the later calls, chosen at random, take `ms` longer.
    pub(super) fn set_slow(&self, percent: u32, ms: u32) {
        self.slow_percent.store(percent, Ordering::Relaxed);
        self.slow_ms.store(ms, Ordering::Relaxed);
    }

    /// Makes `percent` of the later calls, chosen at random, fail with this gRPC status code; the code 0 makes all
    /// calls succeed.
    pub(super) fn set_failure(&self, code: u32, percent: u32) {
        self.fail_percent.store(percent, Ordering::Relaxed);
        self.failure.store(code, Ordering::Relaxed);
    }

    /// Counts a call. Returns an error if the server must fail the call.
    pub(super) fn begin(&self) -> Result<(), Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.failure.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => match self.fail_percent.load(Ordering::Relaxed) {
                100 => Err(Status::new(Code::from_i32(code.cast_signed()), "this server fails every call")),
                percent if happens(percent) => {
                    let message = format!("this server fails {percent} % of its calls");
                    Err(Status::new(Code::from_i32(code.cast_signed()), message))
                }
                _ => Ok(()),
            },
        }
    }

    /// Number of calls so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Number of messages so far, including messages that the server has received and not answered yet.
    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Counts a message. Waits for the configured duration of one call, plus `extra_ms`.
    pub(super) async fn take(&self, extra_ms: u32) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        let duration = self.one_call() + Duration::from_millis(extra_ms.into());
        if !duration.is_zero() {
            tokio::time::sleep(duration).await;
        }
    }

    fn one_call(&self) -> Duration {
        let spread_ms = self.spread_ms.load(Ordering::Relaxed);
        let delay = Duration::from_millis(self.delay_ms.load(Ordering::Relaxed).into());
        let slow_ms =
            if happens(self.slow_percent.load(Ordering::Relaxed)) { self.slow_ms.load(Ordering::Relaxed) } else { 0 };
        delay + Duration::from_millis(slow_ms.into()) + Duration::from_millis(spread_ms.into()).mul_f64(fastrand::f64())
    }
}

/// Returns true with a probability of `percent` %.
fn happens(percent: u32) -> bool {
    fastrand::u32(..100) < percent
}
