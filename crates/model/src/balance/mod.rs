//! The balancer, which chooses the endpoint of each call. It does no I/O and reads no clock: the caller passes the time
//! and a seed.
//!
//! One [`Balancer`] serves one cluster on one worker thread. [`Balancer::pick`] chooses an endpoint, and
//! [`Balancer::finish`] reports how the call ended. The caller finishes each pick exactly once.
//!
//! | file | question |
//! |---|---|
//! | `policy_name` | what are the balancing policies called? |
//! | `choose` | which of several endpoints gets a call? |
//! | `latency` | which endpoints should get calls, in the `latency` policy? |
//! | `endpoints` | which endpoints exist, and what is known of each? |
//! | `open_calls` | how many calls are in flight, and does an endpoint hang? |
//! | `kept_places` | for how long do failed calls count as in flight? |
//! | `health` | is an endpoint ready, warming, slow or failing? |
//! | `probation` | when has a slow or failing endpoint recovered? |
//! | `estimate`, `failure_rate` | how slow is an endpoint, and how often does it fail? |
//! | `baseline`, `methods` | what is normal for the cluster and a method? |
//! | `explain` | how can users see the reasons? |

mod baseline;
mod choose;
mod endpoints;
mod estimate;
mod explain;
mod failure_rate;
mod health;
mod kept_places;
mod latency;
mod methods;
mod open_calls;
mod policy_name;
mod probation;
mod recent;
mod retry_budget;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use choose::{Choice, Entry, Rank, Why};
use endpoints::Endpoints;
use fastrand::Rng;
use health::Health;
use latency::{Latency, as_ms};
use recent::RecentPicks;

pub use endpoints::EndpointId;
pub use explain::{Explanation, PickReason};
pub use methods::Method;
pub use policy_name::{Policy, UnknownPolicy};
pub use retry_budget::{BudgetSettings, RetryBudget};

/// Chooses the endpoint of each call to one cluster, and learns from the outcomes of the calls.
///
/// Equal seeds, calls and times result in equal picks. To see the next pick without changing the balancer, clone the
/// balancer and pick from the clone.
#[derive(Debug, Clone)]
pub struct Balancer {
    policy: Policy,
    endpoints: Endpoints,
    latency: Latency,
    random: Rng,
    /// Serial number of the latest pick. It starts above the `turn` of every new endpoint, which is random.
    turn: u64,
    /// Position of the next endpoint in round robin.
    next_in_turn: usize,
    recent: RecentPicks,
    last_pick: Option<(EndpointId, Why)>,
}

/// A call in flight to an endpoint. Pass it to [`Balancer::finish`] when the call ends.
#[derive(Debug)]
#[must_use = "a pick that is not finished counts as in flight for ever"]
pub struct Pick {
    pub endpoint: EndpointId,
    started: Instant,
    method: Method,
    /// Time from the request to the response headers, converted to the average method. `None` until
    /// [`Balancer::answered`] reports the response headers.
    answered_us: Option<NonZeroU32>,
}

impl Pick {
    /// Sets the call's method. The balancer divides latencies by the usual latency of the method, so that it can
    /// compare the latencies of different methods.
    pub fn of(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// Returns whether [`Balancer::answered`] has reported the response headers.
    pub fn is_answered(&self) -> bool {
        self.answered_us.is_some()
    }
}

/// How a call ended. The balancer uses it as evidence about the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint worked, even if it answered with an error that the caller caused.
    Success {
        /// Time from sending the request to the end of the call. The balancer uses it as the latency unless
        /// [`Balancer::answered`] has reported the response headers.
        latency: Duration,
    },
    /// The endpoint failed: an answer for which [`is_failure`] is true, or a broken or refused connection.
    Failure {
        /// Time from sending the request to the failure.
        latency: Duration,
        /// Time that the server asks clients to wait before they retry this call; `None` without such a request. If the
        /// endpoint is failing, the next probe follows after this time at the earliest, but after at most 30 s.
        pushback: Option<Duration>,
    },
    /// The caller cancelled the call. Before the response headers, the wait is evidence: the endpoint takes at least
    /// that long. After the response headers, the call is a success.
    Cancelled {
        /// Time from sending the request to the cancellation.
        waited: Duration,
    },
    /// The call was not sent, or the endpoint refused it before processing. This is no evidence about the endpoint.
    NotSent,
}

impl Outcome {
    /// Returns the outcome of a call that the endpoint has answered with these statuses. For the other arguments, see
    /// [`Outcome::Failure`].
    pub fn of_answer(
        (http_status, grpc_status): (u16, Option<u8>),
        latency: Duration,
        pushback: Option<Duration>,
    ) -> Self {
        match is_failure(http_status, grpc_status) {
            true => Self::Failure { latency, pushback },
            false => Self::Success { latency },
        }
    }
}

/// Returns whether an answer with these statuses is a failure. `grpc_status` is the status of a gRPC call; UNKNOWN if
/// the answer has none, because gRPC clients assume UNKNOWN then.
///
/// | status | why it is a failure |
/// |---|---|
/// | UNKNOWN (2) | the application threw an exception (grpc-java, grpc-python) or returned a plain error (grpc-go) |
/// | DEADLINE_EXCEEDED (4) | the endpoint waited in vain for something that it needs |
/// | RESOURCE_EXHAUSTED (8), HTTP 429 | the endpoint is overloaded |
/// | INTERNAL (13), UNAVAILABLE (14), DATA_LOSS (15), HTTP 5xx | the endpoint is broken or not ready |
///
/// An application may also answer with each of these statuses although the endpoint works: the call has a wrong
/// argument, or the user's quota is used up. Such calls fail equally often at every endpoint. So they make no endpoint
/// failing, because the balancer compares the endpoints with each other. If these statuses were successes, a broken
/// endpoint would attract most of the calls: it answers faster than the others, so it has the fewest calls in flight.
pub fn is_failure(http_status: u16, grpc_status: Option<u8>) -> bool {
    http_status >= 500 || http_status == 429 || matches!(grpc_status, Some(2 | 4 | 8 | 13 | 14 | 15))
}

impl Balancer {
    /// Creates a balancer without endpoints.
    pub fn new(policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            endpoints: Endpoints::default(),
            latency: Latency::default(),
            random: Rng::with_seed(seed),
            turn: 1 << 32,
            next_in_turn: 0,
            recent: RecentPicks::new(),
            last_pick: None,
        }
    }

    /// Replaces the endpoints by `addresses`, which may be in any order and may contain duplicates.
    ///
    /// An endpoint that stays keeps its state and its id. The state of a removed endpoint is dropped, and finishing its
    /// picks then has no effect. If the balancer already has endpoints, a new endpoint starts with a small share of the
    /// calls.
    pub fn set_endpoints(&mut self, now: Instant, addresses: impl IntoIterator<Item = SocketAddr>) {
        let old = &self.endpoints.list;
        let alone = old.is_empty();
        let next_address = old.get(self.next_in_turn).map(|endpoint| endpoint.address);
        let gone = self.endpoints.replace(addresses, || {
            let chance = self.random.f64();
            let health = if alone { Health::ready(now, chance) } else { Health::warming(now, chance) };
            // Give a new endpoint a random turn below the turns of all picks. Among otherwise equal endpoints, the new
            // ones are then picked first, and each worker picks them in a different order.
            (health, self.random.u32(..).into())
        });

        let list = &self.endpoints.list;
        self.next_in_turn = match next_address {
            Some(next) => list.partition_point(|endpoint| endpoint.address < next),
            None => self.random.usize(..list.len().max(1)),
        };
        self.recent.forget(&gone);
        self.latency.baseline.reserve(list.len());
    }

    /// Changes the policy, but keeps the endpoints and their state.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Chooses among the endpoints for which `usable` returns true; `None` if there is no such endpoint.
    ///
    /// `usable` must return true if a connection to the endpoint is possible and this call has not tried the endpoint
    /// yet. `pick` may call `usable` several times for one endpoint, and need not call it for every endpoint.
    pub fn pick(&mut self, now: Instant, mut usable: impl FnMut(EndpointId) -> bool) -> Option<Pick> {
        self.latency.refresh(now, &mut self.endpoints);
        let Choice { index, why } = match self.policy {
            Policy::Latency => self.latency.choose((now, self.turn), &self.endpoints, &mut self.random, usable),
            Policy::LeastRequest => {
                choose::fewest_in_flight(&self.endpoints.list, &mut self.random, |endpoint, _, _| {
                    let entry = Entry { rank: Rank::Ready, load: endpoint.calls.in_flight, turn: endpoint.turn };
                    usable(endpoint.id).then_some(entry)
                })
            }
            Policy::RoundRobin => choose::next_in_turn(&self.endpoints.list, &mut self.next_in_turn, usable),
            Policy::Random => choose::drawn(&self.endpoints.list, &mut self.random, usable),
        }?;
        self.turn += 1;
        let endpoint = &mut self.endpoints.list[index];
        endpoint.picked(now, self.turn);
        self.recent.push(endpoint.id.slot());
        self.last_pick = Some((endpoint.id, why));
        Some(Pick { endpoint: endpoint.id, started: now, method: Method::default(), answered_us: None })
    }

    /// Reports that the response headers arrived `latency` after the request was sent, while the call continues.
    ///
    /// Use this function for long calls. The balancer then learns the endpoint's latency long before the call ends. It
    /// also does not mistake silence after the headers for slowness. Without this report, it takes the latency from
    /// [`Balancer::finish`].
    ///
    /// Do not report headers that show a failure, or that end the response. A fast failure would then make the endpoint
    /// look fast, because the balancer learns of the failure only later.
    pub fn answered(&mut self, now: Instant, pick: &mut Pick, latency: Duration) {
        if pick.answered_us.is_some() {
            return;
        }
        let Some(endpoint) = self.endpoints.get_mut(pick.endpoint) else {
            return;
        };
        endpoint.answered(now, pick.started);
        let latency_ms = self.latency.methods.observe(pick.method, as_ms(latency));
        pick.answered_us = Some(NonZeroU32::MIN.saturating_add((latency_ms * 1e3) as u32));
        endpoint.health.answered(now, latency_ms, self.latency.baseline.surprise_ms);
        endpoint.health.proved_fast(now, pick.started, latency_ms, &self.latency.baseline);
        self.latency.judge(now, endpoint);
    }

    /// Ends a pick of this balancer. Has no effect if the endpoint has been removed since the pick.
    #[expect(clippy::needless_pass_by_value, reason = "by value, a pick ends only once")]
    pub fn finish(&mut self, now: Instant, pick: Pick, outcome: Outcome) {
        let Pick { endpoint, started, method, answered_us } = pick;
        let answered_ms = answered_us.map(|us| f64::from(us.get()) / 1e3);
        let endpoints = self.endpoints.list.len();
        let Some(endpoint) = self.endpoints.get_mut(endpoint) else {
            return;
        };
        let is_new_outcome = endpoint.calls.end(answered_ms.is_some(), started);
        match outcome {
            Outcome::Success { .. } | Outcome::Failure { .. } => endpoint.heard(now, started),
            Outcome::Cancelled { .. } => endpoint.calls.unheard(now, true),
            Outcome::NotSent => endpoint.calls.unheard(now, false),
        }
        let health = &mut endpoint.health;
        let Latency { methods, baseline, .. } = &mut self.latency;
        match outcome {
            Outcome::Success { latency } => {
                // `answered_ms` is converted to the average method, but `latency` is not. The difference is still
                // accurate enough to distinguish streams from short calls. A successful call without a report of its
                // headers mostly ends with them.
                baseline.note_stream(answered_ms.map_or(0.0, |answered_ms| as_ms(latency) - answered_ms));
                let latency_ms = answered_ms.unwrap_or_else(|| {
                    let latency_ms = methods.observe(method, as_ms(latency));
                    health.answered(now, latency_ms, baseline.surprise_ms);
                    health.proved_fast(now, started, latency_ms, baseline);
                    latency_ms
                });
                if is_new_outcome {
                    health.succeeded(now, started, latency_ms, baseline);
                }
            }
            Outcome::Failure { latency, .. } => {
                if answered_ms.is_none() && health.latency.is_some() {
                    // Record the latency only as a minimum: a slow failure shows that the endpoint is slow, but a fast
                    // failure does not show that it is fast. So it is not the first latency either.
                    health.waited(now, methods.normalised(method, as_ms(latency)), baseline.surprise_ms);
                }
                health.failed(now, baseline);
                endpoint.failed(now, baseline.latency_ms);
            }
            Outcome::Cancelled { waited } => match answered_ms {
                None => health.waited(now, methods.normalised(method, as_ms(waited)), baseline.surprise_ms),
                Some(answered_ms) if is_new_outcome => health.succeeded(now, started, answered_ms, baseline),
                Some(_) => return,
            },
            Outcome::NotSent => return,
        }
        self.latency.judge(now, endpoint);
        if let Outcome::Failure { pushback, .. } = outcome {
            self.latency.failed(endpoints);
            if let Some(pushback) = pushback {
                endpoint.health.pushed_back(now, pushback);
            }
        }
    }

    /// The endpoints, in ascending order of addresses.
    pub fn endpoints(&self) -> impl Iterator<Item = (EndpointId, SocketAddr)> {
        self.endpoints.list.iter().map(|endpoint| (endpoint.id, endpoint.address))
    }

    /// The address of an endpoint; `None` if the endpoint has been removed.
    pub fn address(&self, id: EndpointId) -> Option<SocketAddr> {
        self.endpoints.get(id).map(|endpoint| endpoint.address)
    }

    /// Returns whether an endpoint gets only probes because calls to it fail, and a part of a full share while the other
    /// endpoints are full. Always false unless the policy is `latency`.
    pub fn is_failing(&self, id: EndpointId) -> bool {
        self.policy == Policy::Latency && self.endpoints.get(id).is_some_and(|endpoint| endpoint.health.is_failing())
    }

    /// Number of calls in flight to an endpoint; `None` if the endpoint has been removed.
    pub fn in_flight(&self, id: EndpointId) -> Option<u32> {
        self.endpoints.get(id).map(|endpoint| endpoint.calls.in_flight)
    }
}

#[cfg(test)]
mod tests;
