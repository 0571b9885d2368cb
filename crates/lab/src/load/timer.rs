//! A timer that fires within tens of microseconds; tokio's timers have a granularity of 1 ms.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer that wakes its waker at the time for which it is armed. It can be armed again and again.
pub(super) struct Timer {
    fd: AsyncFd<OwnedFd>,
    waker: Waker,
    armed_for: Option<Instant>,
}

impl Timer {
    /// An unarmed timer.
    ///
    /// # Errors
    /// If the kernel refuses a timer.
    pub(super) fn new(waker: Waker) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(
            deprecated,
            reason = "the replacement is unsafe; an OwnedFd keeps its file open for as long as it lives"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        let mut timer = Self { fd, waker, armed_for: None };
        timer.wait_for_next()?;
        Ok(timer)
    }

    /// Makes the timer fire at `time`, or at once if `time` is past.
    pub(super) fn arm(&mut self, time: Instant) -> io::Result<()> {
        if self.armed_for == Some(time) {
            return Ok(());
        }
        self.armed_for = Some(time);
        // A timerfd value of zero would disarm the timer, so set at least 1 ns.
        let left = time.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let it_value = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        Ok(())
    }

    /// Waits for the next firing: registers the waker again after the timer has woken it.
    pub(super) fn wait_for_next(&mut self) -> io::Result<()> {
        // Reading the count of expirations from the timer's file is unnecessary: the next arming resets the count.
        while let Poll::Ready(fired) = self.fd.poll_read_ready(&mut Context::from_waker(&self.waker)) {
            fired?.clear_ready();
        }
        Ok(())
    }
}
