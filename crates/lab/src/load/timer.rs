//! A timer that fires within tens of microseconds; those of tokio have a granularity of 1 ms.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Wakes its waker at one time after the other.
pub(super) struct Timer {
    fd: AsyncFd<OwnedFd>,
    waker: Waker,
    armed_for: Option<Instant>,
}

impl Timer {
    /// A timer that is not armed.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub(super) fn new(waker: Waker) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "its successor is unsafe; an OwnedFd is one open file for as long as it lives")]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        let mut timer = Self { fd, waker, armed_for: None };
        timer.wait_for_next()?;
        Ok(timer)
    }

    /// Lets it fire at `time`, or at once when that is past.
    pub(super) fn arm(&mut self, time: Instant) -> io::Result<()> {
        if self.armed_for == Some(time) {
            return Ok(());
        }
        self.armed_for = Some(time);
        // Zero would disarm it.
        let left = time.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let it_value = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        Ok(())
    }

    /// To be called after the waker was woken: it will be again.
    pub(super) fn wait_for_next(&mut self) -> io::Result<()> {
        // Arming makes the kernel forget that it fired, so nothing needs to be read.
        while let Poll::Ready(fired) = self.fd.poll_read_ready(&mut Context::from_waker(&self.waker)) {
            fired?.clear_ready();
        }
        Ok(())
    }
}
