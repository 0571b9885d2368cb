//! Runs loads that make one exchange at a time on each connection: HTTP/1.1 requests or TLS handshakes.
//!
//! Each client is a task. In an open loop, due exchanges wait in one queue for the first free client.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

use super::call::Answer;
use super::failure::{Failure, FailureClass};
use super::handshake::Handshake;
use super::http1::Http1;
use super::pace::Pace;
use super::recorder::Recorder;
use super::timer::Timer;
use super::{CONNECTING_AT_A_TIME, Client, Exchange, LAST_ANSWERS, Pattern, Plan, RETRY_GAP};
use crate::error::{Error, Result, io};

/// Maximum number of attempts at a client's first exchange if the server answers with an HTTP error status (not 200 to
/// 299). With a single attempt, a load with one client could not start against servers that fail a few requests.
const FIRST_ATTEMPTS: u32 = 3;

/// A client that makes one exchange at a time.
pub(super) enum Worker {
    Http1(Http1),
    Handshake(Handshake),
}

/// Connects all clients of the plan.
///
/// # Errors
/// - [`Error::Connect`] if a client cannot connect.
/// - [`Error::Connect`] if every client got only HTTP error statuses from a user's servers: the path is probably wrong.
///   This rule does not apply to the lab's own servers, because they may fail calls on purpose.
pub(super) async fn connect(plan: &Plan) -> Result<Vec<Worker>> {
    let clients = stream::iter(&plan.clients).enumerate();
    let connecting = clients.map(|(index, client)| Worker::connect(client, index, plan));
    let connected: Vec<(Worker, Option<Error>)> = connecting.buffered(CONNECTING_AT_A_TIME).try_collect().await?;
    let (workers, refusals): (Vec<_>, Vec<_>) = connected.into_iter().unzip();
    let all_refused: Option<Vec<Error>> = refusals.into_iter().collect();
    match all_refused.and_then(|refusals| refusals.into_iter().next()) {
        Some(refusal) if !plan.exchange.has_server_names() => Err(refusal),
        _ => Ok(workers),
    }
}

impl Worker {
    /// Connects the client with this index by making its first exchange. If the server answered each attempt with an
    /// HTTP error status, the second value is an error, and the client is usable all the same.
    ///
    /// # Errors
    /// [`Error::Connect`] if the client gets no answer.
    async fn connect(client: &Client, index: usize, plan: &Plan) -> Result<(Self, Option<Error>)> {
        let refused = |why| Error::Connect { target: client.authority.clone(), address: client.address, why };
        let mut worker = match &plan.exchange {
            Exchange::Handshake(hello) => Self::Handshake(Handshake::new(client, hello)),
            exchange => {
                let http1 = Http1::new(client, index, exchange, &plan.traffic);
                Self::Http1(http1.map_err(|error| refused(error.to_string()))?)
            }
        };
        let mut refusal = None;
        for _ in 0..FIRST_ATTEMPTS {
            match worker.exchange().await {
                Ok(_) => return Ok((worker, None)),
                Err(Failure { class: FailureClass::Http(_), why }) => refusal = Some(refused(why)),
                Err(failure) if refusal.is_none() => return Err(refused(failure.why)),
                // This attempt failed, but an earlier attempt was answered with an error status. A server may close the
                // connection after such an answer.
                Err(_) => {}
            }
        }
        Ok((worker, refusal))
    }

    async fn exchange(&mut self) -> Answer {
        match self {
            Self::Http1(client) => client.exchange().await,
            Self::Handshake(client) => client.exchange().await,
        }
    }
}

/// State that all clients share.
struct Shared {
    recorder: RefCell<Recorder>,
    /// Due times of exchanges that have not begun; only in an open loop.
    due: RefCell<VecDeque<Instant>>,
    /// Notifies a client that an exchange is due, or that no further exchange will be due.
    news: Notify,
    end: Instant,
    /// Time at which the load cancels the open exchanges. No exchange begins after this time.
    give_up: Instant,
}

/// Runs all workers until every exchange has ended or was cancelled, at most [`LAST_ANSWERS`] longer than until `end`.
/// After `end`, the clients still make the exchanges that wait in the queue. The exchanges that wait even at the end of
/// this time count as not sent.
///
/// # Errors
/// If the kernel's timer fails.
pub(super) async fn run(
    workers: Vec<Worker>,
    plan: &Plan,
    recorder: Recorder,
    start: Instant,
    end: Instant,
) -> Result<()> {
    let shared = Rc::new(Shared {
        recorder: RefCell::new(recorder),
        due: RefCell::new(VecDeque::new()),
        news: Notify::new(),
        end,
        give_up: end + LAST_ANSWERS,
    });
    let local = LocalSet::new();
    let mut tasks = JoinSet::new();
    for worker in workers {
        let shared = Rc::clone(&shared);
        match plan.pattern {
            Pattern::Closed { .. } => tasks.spawn_local_on(closed(worker, shared), &local),
            Pattern::Open { .. } => tasks.spawn_local_on(open(worker, shared), &local),
        };
    }
    let paced = async {
        if let Pattern::Open { rate_per_s, max_in_flight } = plan.pattern {
            pace(&shared, plan.pace(start, rate_per_s), max_in_flight as usize).await?;
        }
        tasks.join_all().await;
        Ok(())
    };
    local.run_until(paced).await?;
    if let Ok(shared) = Rc::try_unwrap(shared).map_err(|_| ()) {
        shared.finish();
    }
    Ok(())
}

/// Runs a client of a closed loop. The client begins an exchange as soon as the previous exchange has ended.
async fn closed(mut worker: Worker, shared: Rc<Shared>) {
    loop {
        let since = Instant::now();
        if since >= shared.end {
            return;
        }
        shared.exchange(&mut worker, since).await;
    }
}

/// Runs a client of an open loop. The client begins an exchange as soon as an exchange is due.
async fn open(mut worker: Worker, shared: Rc<Shared>) {
    while Instant::now() < shared.give_up {
        let due = shared.due.borrow_mut().pop_front();
        match due {
            Some(since) => shared.exchange(&mut worker, since).await,
            None if Instant::now() >= shared.end => return,
            None => shared.news.notified().await,
        }
    }
}

impl Shared {
    async fn exchange(&self, worker: &mut Worker, since: Instant) {
        let answer = tokio::time::timeout_at(self.give_up.into(), worker.exchange()).await;
        let answer = answer.unwrap_or_else(|_| {
            let why = format!("no answer within {} s after the last", LAST_ANSWERS.as_secs());
            Err(Failure::new(FailureClass::TimeOut, why))
        });
        // An answer with an HTTP error status leaves the connection intact, so the client sends its next request at
        // once. A pause would hide how often a target answers with such a status.
        let needs_pause = answer.as_ref().is_err_and(|failure| !matches!(failure.class, FailureClass::Http(_)));
        {
            let mut recorder = self.recorder.borrow_mut();
            recorder.ended(since, Instant::now(), answer);
            recorder.hand_over();
        }
        if needs_pause {
            tokio::time::sleep_until((Instant::now() + RETRY_GAP).min(self.give_up).into()).await;
        }
    }

    /// Counts the exchanges that no client has begun, and completes the recorded numbers.
    fn finish(self) {
        let Self { recorder, due, .. } = self;
        let mut recorder = recorder.into_inner();
        for since in due.into_inner() {
            recorder.failed(since, Failure::no_free_client());
        }
        recorder.finish();
    }
}

/// Queues exchanges when they are due. While `max_waiting` exchanges wait, further exchanges count as failed.
async fn pace(shared: &Shared, mut pace: Pace, max_waiting: usize) -> Result<()> {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let mut timer = Timer::new(waker).map_err(io("making a timer"))?;
    while let Some(next) = pace.next_due() {
        timer.arm(next).map_err(io("arming a timer"))?;
        poll_fn(|_| match timer.wait_for_next() {
            Ok(()) if Instant::now() < next => Poll::Pending,
            result => Poll::Ready(result),
        })
        .await
        .map_err(io("waiting for a timer"))?;
        loop {
            let now = Instant::now();
            let Some(due) = pace.take(now) else { break };
            if shared.due.borrow().len() >= max_waiting {
                shared.recorder.borrow_mut().failed(due, Failure::not_sent());
                continue;
            }
            // Record the lateness before the exchange waits for a free client. The load causes the lateness; the target
            // causes the wait.
            shared.recorder.borrow_mut().sent(due, now);
            shared.due.borrow_mut().push_back(due);
            shared.news.notify_one();
        }
    }
    tokio::time::sleep_until(shared.end.into()).await;
    shared.news.notify_waiters();
    Ok(())
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
