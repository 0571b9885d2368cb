//! A simulated server: answers calls, refuses some, resets some, stalls, goes away, dies and comes back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::{FieldSection, Limits, Windows};

use crate::engine::Engine;
use crate::log::Seen;
use crate::mesh::HTTP_PORT;
use crate::net::{CableId, End, Net, Read};
use crate::parts::{Part, Parts};
use crate::served::{Call, Habits, Plan, Served, respond};
use crate::settings::Changes;

/// Maximum number of attacks of a hostile server on one connection.
const ATTACKS_MAX: u32 = 40;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    served: Vec<Served>,
    limits: Arc<Limits>,
    /// Time until which the server accepts no connections.
    down_until: Option<Instant>,
    habits: Habits,
    fields: FieldSection,
}

impl Server {
    /// Creates a server that behaves as these parts of the world allow.
    pub(crate) fn new(number: u8, parts: Parts, net: &mut Net) -> Self {
        let has_small_windows = !net.random.bool() && parts.has(Part::SmallWindows);
        let takes_few_calls = !net.random.bool() && parts.has(Part::SmallLimits);
        let has_faults = !net.random.bool() && parts.has(Part::ServerFaults);
        let limits = Limits {
            max_concurrent_streams: if takes_few_calls { net.random.u32(1..20) } else { 1_000 },
            initial_window_bytes: if has_small_windows { net.random.u32(1..20_000) } else { 65_535 },
            // With 0, the connection fails as soon as a relay opens more streams than the server announced.
            max_stream_errors: 0,
            ..Limits::server()
        };
        Self {
            address: SocketAddr::from(([10, 0, 0, number], HTTP_PORT)),
            served: Vec::new(),
            limits: Arc::new(limits),
            down_until: None,
            habits: Habits {
                faults: if has_faults { net.random.u8(1..40) } else { 0 },
                is_restless: !net.random.bool() && parts.has(Part::RestlessServers),
                is_early: !net.random.bool() && parts.has(Part::EarlyAnswers),
                is_hostile: false,
            },
            fields: FieldSection::new(),
        }
    }

    pub(crate) fn is_hostile(&self) -> bool {
        self.habits.is_hostile
    }

    /// Makes the server hostile.
    pub(crate) fn turn_hostile(&mut self) {
        self.habits.is_hostile = true;
    }

    /// Closes all connections, including those with calls that the server would never answer. The server accepts no
    /// more connections.
    pub(crate) fn stop(&mut self, net: &mut Net) {
        self.down_until = Some(net.now + Duration::from_secs(1_000));
        self.served.iter_mut().for_each(|served| served.close(net));
    }

    pub(crate) fn has_faults(&self) -> bool {
        self.habits.faults > 0
    }

    /// Does everything that is due. Returns an error if an invariant is broken.
    pub(crate) fn run(&mut self, net: &mut Net, seen: &mut Seen) -> Result<(), String> {
        for index in 0..self.served.len() {
            self.read(index, net, seen)?;
            if self.habits.faults > 0
                && self.served[index].calls.len() > 1
                && net.random.u16(..) < u16::from(self.habits.faults)
            {
                self.fault(index, net);
            } else if self.habits.is_restless && net.random.u8(..50) == 0 {
                self.served[index].end_gently(net);
            }
            self.answer(index, net);
            self.flush(index, net);
        }
        self.served.retain(|served| !served.is_over);
        Ok(())
    }

    fn fault(&mut self, index: usize, net: &mut Net) {
        let served = &mut self.served[index];
        match net.random.u8(..6) {
            0 | 1 => served.end_gently(net),
            2 => served.close(net),
            3 => served.half_close(net),
            4 => net.reset(served.cable),
            _ => {
                for served in &mut self.served {
                    served.close(net);
                }
                self.down_until = Some(net.now + Duration::from_millis(net.random.u64(1..500)));
            }
        }
    }

    fn read(&mut self, index: usize, net: &mut Net, seen: &mut Seen) -> Result<(), String> {
        let served = &mut self.served[index];
        // A paused engine leaves bytes unprocessed, so process the bytes of earlier reads first.
        served.take_held(net, &self.habits, &mut self.fields, seen)?;
        while !served.is_over {
            match net.read(served.cable, End::Far, 16 << 10) {
                Read::Bytes(bytes) => {
                    served.held.extend(bytes);
                    served.take_held(net, &self.habits, &mut self.fields, seen)?;
                }
                Read::End => served.close(net),
                Read::Nothing => break,
            }
        }
        Ok(())
    }

    fn answer(&mut self, index: usize, net: &Net) {
        let served = &mut self.served[index];
        let is_due = |call: &Call| match call.plan {
            Plan::Answer(at) => call.is_complete && at <= net.now,
            Plan::AnswerEarly(at) | Plan::Break(at) | Plan::Fail(at) => at <= net.now,
            Plan::ReadOn | Plan::Silent => false,
        };
        let due: Vec<_> = served.calls.iter().filter(|(_, call)| is_due(call)).map(|(token, _)| *token).collect();
        for token in due {
            let call = served.calls.remove(&token).expect("it was found");
            if let Some(engine) = &mut served.engine {
                respond(engine, &call);
            }
            if matches!(call.plan, Plan::AnswerEarly(_)) && !call.is_complete {
                served.calls.insert(token, Call { plan: Plan::ReadOn, ..call });
            }
        }
    }

    fn flush(&mut self, index: usize, net: &mut Net) {
        let served = &mut self.served[index];
        if self.habits.is_hostile
            && served.output.is_empty()
            && served.attacks < ATTACKS_MAX
            && net.random.u8(..12) == 0
        {
            served.attacks += 1;
            served.attack(net);
        }
        served.change_settings(net);
        while !served.is_over {
            served.take_output();
            if served.output.is_empty() {
                break;
            }
            match net.write(served.cable, End::Far, &served.output) {
                Some(0) | None => break,
                Some(written) => drop(served.output.drain(..written)),
            }
        }
        if served.engine.as_ref().is_some_and(Engine::is_over) && served.output.is_empty() && !served.is_over {
            served.close(net);
        }
    }

    /// Returns a call whose request has not arrived whole.
    pub(crate) fn incomplete(&self) -> Option<u64> {
        let mut calls = self.served.iter().flat_map(|served| served.calls.values());
        calls.find(|call| !call.is_complete).map(|call| call.id)
    }

    /// Returns whether output for some connection is still unsent.
    pub(crate) fn has_output(&self) -> bool {
        let has_output = |served: &Served| {
            !served.output.is_empty() || served.engine.as_ref().is_some_and(|it| it.pending_output() > 0)
        };
        self.served.iter().any(has_output)
    }

    /// Returns the flow-control windows of the connections on which no bytes are in transit.
    pub(crate) fn windows(&self, net: &Net) -> Vec<(CableId, Windows)> {
        self.served.iter().filter_map(|served| served.windows(net)).collect()
    }

    /// Returns the time of the next action.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        let calls = self.served.iter().flat_map(|served| served.calls.values());
        let due = calls.filter_map(|call| match call.plan {
            Plan::Answer(at) => call.is_complete.then_some(at),
            Plan::AnswerEarly(at) | Plan::Break(at) | Plan::Fail(at) => Some(at),
            Plan::ReadOn | Plan::Silent => None,
        });
        let changes = self.served.iter().filter_map(|served| served.changes.next(net));
        due.chain(changes).map(|at| at.max(net.now + Duration::from_micros(1))).min()
    }

    /// Accepts a connection of a client. Returns whether there is a listener at `address`.
    pub(crate) fn accept(&mut self, address: SocketAddr, cable: CableId, net: &mut Net) -> bool {
        if self.address != address || self.down_until.is_some_and(|until| net.now < until) {
            return false;
        }
        self.served.push(Served {
            cable,
            engine: None,
            limits: self.limits.clone(),
            calls: BTreeMap::new(),
            last_token: 0,
            attacks: 0,
            held: Vec::new(),
            output: Vec::new(),
            changes: Changes::new(&self.limits, net),
            is_half_closed: false,
            is_over: false,
        });
        true
    }
}
