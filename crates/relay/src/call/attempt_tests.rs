use std::time::Duration;

use leno_model::balance::{Balancer, EndpointId, Policy};

use super::*;

/// The attempts at one call, and the balancer that chooses their endpoints.
pub(crate) struct Attempted {
    pub(crate) balancer: Balancer,
    pub(crate) attempts: Attempts,
}

impl Attempted {
    pub(crate) fn new(now: Instant) -> Self {
        let mut balancer = Balancer::new(Policy::Random, 1);
        balancer.set_endpoints(now, ["10.0.0.1:80", "10.0.0.2:80"].map(|address| address.parse().expect("an address")));
        Self { balancer, attempts: Attempts::default() }
    }

    pub(crate) fn begin(&mut self, now: Instant) -> AttemptId {
        let pick = self.balancer.pick(now, |_| true).expect("an endpoint");
        self.attempts.begin(CallId::numbered(7), pick, PoolId::numbered(0), now)
    }

    fn in_flight(&self) -> u32 {
        let ids: Vec<EndpointId> = self.balancer.endpoints().map(|(id, _)| id).collect();
        ids.into_iter().filter_map(|id| self.balancer.in_flight(id)).sum()
    }

    fn finish(&mut self, id: AttemptId, now: Instant) {
        let mut ended = self.attempts.end(id).expect("an attempt");
        let pick = ended.pick.take().expect("a pick");
        self.balancer.finish(now, pick, ended.unanswered(now));
    }
}

fn stream(number: u32) -> (UpstreamId, StreamKey) {
    (UpstreamId::numbered(number), StreamKey::numbered(number))
}

#[test]
fn an_attempt_that_has_ended_is_found_by_no_id_and_no_stream() {
    let now = Instant::now();
    let mut attempted = Attempted::new(now);
    let first = attempted.begin(now);
    let (upstream, key) = stream(1);
    attempted.attempts.get_mut(first).expect("an attempt").stage = Stage::Sent(upstream, key);
    assert_eq!(attempted.attempts.on(first.call, upstream, key), Some(first));
    attempted.finish(first, now);

    let second = attempted.begin(now);
    assert_ne!(first, second);
    assert!(attempted.attempts.get(first).is_none() && attempted.attempts.end(first).is_none());
    assert_eq!(attempted.attempts.on(first.call, upstream, key), None);
    assert_eq!((attempted.attempts.begun(), attempted.attempts.len()), (2, 1));
    attempted.finish(second, now);
    assert_eq!(attempted.in_flight(), 0);
}

#[test]
fn the_client_gets_window_for_what_every_attempt_has_sent() {
    let now = Instant::now();
    let mut attempted = Attempted::new(now);
    assert_eq!(attempted.attempts.sent_bytes(), 0);
    for sent_bytes in [500, 200] {
        let id = attempted.begin(now);
        attempted.attempts.get_mut(id).expect("an attempt").sent_bytes = sent_bytes;
    }
    assert_eq!((attempted.attempts.sent_bytes(), attempted.in_flight()), (200, 2));
}

#[test]
fn only_an_attempt_that_was_sent_tells_the_balancer_how_long_it_waited() {
    let now = Instant::now();
    let mut attempted = Attempted::new(now);
    let id = attempted.begin(now);
    let (later, waited) = (now + Duration::from_millis(30), Duration::from_millis(30));
    let (upstream, key) = stream(1);
    for (stage, outcome) in [
        (Stage::Chosen, Outcome::NotSent),
        (Stage::Waiting(Turn(3)), Outcome::NotSent),
        (Stage::Sent(upstream, key), Outcome::Cancelled { waited }),
        (Stage::Lost, Outcome::NotSent),
    ] {
        let attempt = attempted.attempts.get_mut(id).expect("an attempt");
        attempt.stage = stage;
        assert_eq!(attempt.unanswered(later), outcome, "{stage:?}");
    }
}
