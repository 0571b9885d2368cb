//! Records of calls outside of the relays: the lines of the relays' access logs, and the calls that servers have
//! received.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leno_relay::Relay;
use leno_relay::trace::{Dropped, FinishedCall, Outbox};

use crate::mesh::Repeats;

/// The access log of a proxy, over all its processes.
#[derive(Default)]
pub(crate) struct Log {
    /// The attempts that have a line in the log.
    pub(crate) recorded: BTreeSet<u64>,
    /// The attempts that the proxy has denied, some of them only after it had accepted them.
    pub(crate) denied: BTreeSet<u64>,
    /// An attempt with two lines.
    pub(crate) recorded_twice: Option<u64>,
    /// Whether a server's proxy may get a call several times. This happens if the clients' proxy has retries or
    /// hedging, or if it sends a call again that the server's proxy could not send.
    pub(crate) may_repeat: bool,
    /// Number of lines about requests without an id.
    pub(crate) strange_lines: u64,
    /// Number of lines about opaque connections.
    pub(crate) opaque: usize,
    /// Number of opaque connections that came through a tunnel of another proxy.
    pub(crate) tunnelled: u64,
}

impl Log {
    /// Reads the new lines, and compares them with the traces of the same calls. Returns an error if a trace is
    /// missing, superfluous or inconsistent.
    pub(crate) fn read(&mut self, relay: &mut Relay, traces: Option<&mut Traces>) -> Result<(), String> {
        let Some(lines) = relay.access_log().lines() else { return Ok(()) };
        let text = String::from_utf8(std::mem::take(&mut lines.text)).expect("the log is text");
        lines.note_taken();
        if let Some(traces) = traces {
            traces.check(&text)?;
        }
        for line in text.lines() {
            if line.contains(r#""protocol":"TCP""#) {
                self.opaque += 1;
                self.tunnelled += u64::from(line.contains(r#""client_id":"#));
                continue;
            }
            let id = line.split_once(r#""request_id":""#).and_then(|(_, rest)| rest.split_once('"'));
            // The requests of intruders have no id.
            let Some(id) = id.and_then(|(id, _)| id.parse().ok()) else {
                self.strange_lines += 1;
                continue;
            };
            if line.contains(r#""proxy_error":"denied""#) {
                self.denied.insert(id);
            }
            // In the log of a server's proxy, an attempt over HTTP/1 may have two lines: the clients' proxy may send an
            // idempotent request again.
            let is_http1 = line.contains(r#""protocol":"HTTP/1.1""#);
            let may_repeat = line.contains(r#""direction":"inbound""#) && (is_http1 || self.may_repeat);
            if !self.recorded.insert(id) && !may_repeat {
                self.recorded_twice = Some(id);
            }
        }
        Ok(())
    }
}

/// The traced calls of a relay that have ended.
pub(crate) struct Traces {
    outbox: Arc<Outbox>,
    /// Number of calls in the log whose trace the exporter did not get.
    missing: usize,
}

impl Traces {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox, missing: 0 }
    }

    /// Checks that the calls of new lines have traces, and that the times of each trace ascend. Traces may be missing
    /// only if the relay has dropped as many traces. The relay drops traces if too many calls are traced in a second.
    fn check(&mut self, lines: &str) -> Result<(), String> {
        let traced = self.outbox.take();
        let ids = lines.lines().filter_map(|line| line.split_once(r#""trace_id":""#)?.1.split_once('"'));
        let mut logged: Vec<String> = ids.map(|(id, _)| id.to_owned()).collect();
        logged.sort();
        let exported: Vec<String> = traced.iter().map(|call| call.trace.to_string()).collect();
        let dropped: u64 = Dropped::ALL.into_iter().map(|why| self.outbox.dropped(why)).sum();
        let is_logged = |trace: &String| logged.binary_search(trace).is_ok();
        self.missing += logged.len().saturating_sub(exported.len());
        if !exported.iter().all(is_logged) || exported.len() > logged.len() || self.missing as u64 > dropped {
            let what = format!("the exporter gets {exported:?}, and {dropped} were dropped");
            return Err(format!("the log has the traces {logged:?}, {what}"));
        }
        traced.iter().try_for_each(check_times)
    }
}

/// Checks that the times of a trace ascend.
fn check_times(call: &FinishedCall) -> Result<(), String> {
    let is_ordered = call.attempts.iter().all(|attempt| {
        let times = [Some(attempt.began), attempt.sent, attempt.answered, Some(attempt.ended), Some(call.duration)];
        times.into_iter().flatten().is_sorted()
    });
    match is_ordered && call.attempts.is_sorted_by(|a, b| a.number < b.number) {
        true => Ok(()),
        false => Err(format!("the times of a trace do not ascend: {call:?}")),
    }
}

/// The calls that servers have received.
#[derive(Default)]
pub(crate) struct Seen {
    /// The calls that some server may have processed.
    pub(crate) calls: BTreeMap<u64, SeenCall>,
    /// The attempts at these calls.
    pub(crate) attempts: BTreeSet<u64>,
    /// The calls whose answer some server never sends or never completes.
    pub(crate) never_answered: BTreeSet<u64>,
    /// The calls that some server answers early, and of whose requests it has not received the end yet.
    pub(crate) incomplete: BTreeSet<u64>,
    /// Number of attempts that came after another attempt at the same call.
    pub(crate) repeated: u64,
    /// Number of requests of intruders.
    pub(crate) strange: u64,
    /// The retries and hedges that the policy of the servers' Service allows, so that the clients' proxy may send a
    /// call again.
    pub(crate) repeats: Repeats,
    /// Whether the calls are copies. If a client makes a call again, there may be a copy of each attempt.
    pub(crate) are_copies: bool,
}

/// A call that some server may have processed.
#[derive(Default)]
pub(crate) struct SeenCall {
    /// The client's attempt.
    attempt: u64,
    /// Number of times that the call reached a server.
    times: u32,
    /// Number of times that the call reached a server without a field that marks a retry.
    unmarked: u32,
}

impl Seen {
    /// Records that a server may process a call. `is_marked` tells whether the call is marked as a retry. Returns an
    /// error if the relay should not have sent the call again, or should have marked it. The attempt without a mark may
    /// arrive last, so only a second attempt without a mark is an error. `name` is the path of a gRPC call, and the
    /// method of any other call.
    pub(crate) fn note(&mut self, id: u64, attempt: u64, name: &[u8], is_marked: bool) -> Result<(), String> {
        let id = if self.are_copies { attempt } else { id };
        let call = self.calls.entry(id).or_insert_with(|| SeenCall { attempt, ..SeenCall::default() });
        call.times += 1;
        self.repeated += u64::from(call.times > 1);
        call.unmarked += u32::from(!is_marked);
        if call.attempt != attempt || call.times > 1 + self.repeats.of(name) {
            return Err(format!("call {id} is sent again although a server may have processed it"));
        }
        if call.unmarked > 1 {
            return Err(format!("call {id} is sent again, and the server does not learn it"));
        }
        Ok(())
    }
}
