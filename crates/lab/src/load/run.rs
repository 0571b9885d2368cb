//! The load's loop: sends the due calls, processes the answers, and records calls and answers.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Instant;

use super::channel::Ended;
use super::channels::Channels;
use super::failure::{Failure, FailureClass};
use super::pace::Pace;
use super::ready::Ready;
use super::recorder::Recorder;
use super::timer::Timer;
use super::{LAST_ANSWERS, Pattern, Plan};
use crate::error::{Result, io};

/// A connected load.
pub(super) struct Run {
    channels: Channels,
    feed: Feed,
    recorder: Recorder,
    /// The end of the measured time, after which no call is sent.
    end: Instant,
    /// Time of the latest poll. An answer counts as received at this time. In a closed loop, the next call begins at
    /// the same time, so that there is no gap between the two calls.
    now: Instant,
    ended: Vec<Ended>,
}

/// The trigger of calls.
enum Feed {
    /// Each answer triggers the next call on the same channel.
    Closed,
    /// The schedule triggers the calls. Consecutive calls use the channels round-robin.
    Open { pace: Pace, timer: Timer, turn: usize, max_in_flight: usize },
}

impl Run {
    /// Prepares a load from `start` until `end`.
    ///
    /// # Errors
    /// If the kernel refuses a timer.
    pub(super) fn new(
        plan: &Plan,
        mut channels: Channels,
        recorder: Recorder,
        start: Instant,
        end: Instant,
    ) -> Result<Self> {
        channels.end_streams_at(end);
        let feed = match plan.pattern {
            Pattern::Closed { .. } => Feed::Closed,
            Pattern::Open { rate_per_s, max_in_flight } => Feed::Open {
                pace: plan.pace(start, rate_per_s),
                timer: Timer::new(channels.timer_waker()).map_err(io("making a timer"))?,
                turn: 0,
                max_in_flight: max_in_flight as usize,
            },
        };
        let mut run = Self { channels, feed, recorder, end, now: start, ended: Vec::new() };
        if let Pattern::Closed { in_flight } = plan.pattern {
            for call in 0..in_flight as usize {
                let channel = call % run.channels.len();
                run.channels.send(channel, start, &mut run.ended);
            }
        }
        Ok(run)
    }

    /// Runs until every call was sent, and answered or cancelled.
    ///
    /// # Errors
    /// If the kernel's timer fails.
    pub(super) async fn finish(mut self) -> Result<()> {
        let give_up = self.end + LAST_ANSWERS;
        // Disable tokio's cooperative budget. The loop gives other tasks their turn anyway, because it returns to the
        // runtime when nothing is ready.
        let all = tokio::task::unconstrained(poll_fn(|cx| self.poll(cx)));
        let ended = tokio::time::timeout_at(give_up.into(), all).await;
        if let Ok(result) = ended {
            result?;
        } else {
            let why = format!("no answer within {} s after the last call", LAST_ANSWERS.as_secs());
            for since in self.channels.unanswered() {
                self.recorder.failed(since, Failure::new(FailureClass::TimeOut, why.clone()));
            }
        }
        self.recorder.finish();
        self.channels.close().await;
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.now = Instant::now();
        self.send_due();
        while let Some(ready) = self.channels.step(cx, &mut self.ended) {
            match ready {
                Ready::Call(..) => {}
                Ready::Connection(_) => {
                    self.now = Instant::now();
                    self.send_due();
                }
                Ready::Timer => {
                    if let Feed::Open { timer, .. } = &mut self.feed {
                        timer.wait_for_next().map_err(io("waiting for a timer"))?;
                    }
                }
            }
            self.note_ended();
        }
        self.recorder.hand_over();
        self.is_over()
    }

    /// Sends the due calls of an open loop.
    fn send_due(&mut self) {
        let Feed::Open { pace, turn, max_in_flight, .. } = &mut self.feed else { return };
        while let Some(due) = pace.take(self.now) {
            if self.channels.in_flight() >= *max_in_flight {
                self.recorder.failed(due, Failure::not_sent());
                continue;
            }
            self.recorder.sent(due, self.now);
            self.channels.send(*turn, due, &mut self.ended);
            *turn = (*turn + 1) % self.channels.len();
        }
    }

    /// Records the ended calls and, in a closed loop, sends the next calls.
    fn note_ended(&mut self) {
        while let Some(Ended { channel, since, answer }) = self.ended.pop() {
            self.recorder.ended(since, self.now, answer);
            if matches!(self.feed, Feed::Closed) && self.now < self.end {
                self.channels.send(channel, self.now, &mut self.ended);
            }
        }
    }

    /// Returns `Poll::Ready` if all work is done. Otherwise, in an open loop, arms the timer for the next due call or, after
    /// the last call, for the end. Until the end, all connections stay open: the memory of the proxies is measured with
    /// them.
    fn is_over(&mut self) -> Poll<Result<()>> {
        let end = (self.now < self.end).then_some(self.end);
        let next = match &self.feed {
            Feed::Closed => end,
            Feed::Open { pace, .. } => pace.next_due().or(end),
        };
        match (next, &mut self.feed) {
            (None, _) if self.channels.in_flight() == 0 => Poll::Ready(Ok(())),
            (Some(time), Feed::Open { timer, .. }) => {
                timer.arm(time).map_err(io("arming a timer"))?;
                Poll::Pending
            }
            _ => Poll::Pending,
        }
    }
}
