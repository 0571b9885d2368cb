use super::*;

const TRACE: TraceId = TraceId(NonZeroU128::MIN);
const SPAN: SpanId = SpanId(NonZeroU64::MIN);

struct Decider {
    tracer: Tracer,
    random: fastrand::Rng,
    now: Instant,
}

impl Decider {
    fn new(sampling: Sampling) -> Self {
        let now = Instant::now();
        let tracing = Tracing { sampling, outbox: Arc::default() };
        let mut random = fastrand::Rng::with_seed(7);
        Self { tracer: Tracer::new(Some(tracing), now, &mut random), random, now }
    }

    /// Returns whether a call is sampled; `None` if it is not traced at all.
    fn decides(&mut self, context: Option<TraceContext>, is_decided: bool) -> Option<bool> {
        let is_drawn = self.tracer.sampler.draws(&mut self.random);
        let admitted = self.tracer.admit(context, (is_drawn, is_decided), 10, self.now);
        admitted.map(|(is_sampled, _)| is_sampled)
    }
}

fn of_caller(sampled: Option<bool>) -> Option<TraceContext> {
    let mut context = TraceContext::root();
    (context.caller, context.sampled) = (Some((TRACE, SPAN)), sampled);
    Some(context)
}

#[test]
fn the_caller_decides_whatever_the_ratio() {
    let mut all = Decider::new(Sampling { ratio: 1.0, ..Default::default() });
    assert_eq!(all.decides(of_caller(Some(false)), false), None);
    let mut none = Decider::new(Sampling::default());
    assert_eq!(none.decides(of_caller(Some(true)), false), Some(true));
}

#[test]
fn the_ratio_decides_where_a_call_enters_the_mesh() {
    let mut decider = Decider::new(Sampling { ratio: 0.25, ..Default::default() });
    let sampled = (0..10_000).filter(|_| {
        decider.now += SECOND;
        decider.decides(None, false).is_some()
    });
    let count = sampled.count();
    // The expected number of sampled calls is 2,500, with a standard deviation of 43.
    assert!((2_250..2_750).contains(&count), "{count}");
}

#[test]
fn a_call_that_a_caller_s_proxy_has_not_sampled_begins_no_trace() {
    let mut all = Decider::new(Sampling { ratio: 1.0, ..Default::default() });
    assert_eq!(all.decides(None, true), None);
    assert_eq!(all.decides(of_caller(None), true), Some(true));
}

#[test]
fn calls_that_may_be_kept_get_a_context_that_is_not_sampled() {
    for sampling in
        [Sampling { failed: true, ..Default::default() }, Sampling { slower_than: Some(SECOND), ..Default::default() }]
    {
        let mut decider = Decider::new(sampling);
        assert_eq!(decider.decides(None, false), Some(false));
        assert_eq!(decider.decides(of_caller(Some(false)), true), Some(false));
    }
}

#[test]
fn a_caller_cannot_have_all_its_calls_traced() {
    let mut decider = Decider::new(Sampling::default());
    let traced = (0..100).filter(|_| decider.decides(of_caller(Some(true)), false).is_some()).count();
    assert_eq!(traced, 10);
    let outbox = decider.tracer.outbox().expect("calls are traced").clone();
    assert_eq!(outbox.dropped(Dropped::Rate), 90);
    decider.now += SECOND;
    assert_eq!(decider.decides(of_caller(Some(true)), false), Some(true));
}

#[test]
fn slow_and_failed_calls_are_kept() {
    let slow = Decider::new(Sampling { slower_than: Some(SECOND), ..Default::default() }).tracer;
    assert!(slow.keeps(SECOND * 2, false) && !slow.keeps(SECOND, true));
    let failed = Decider::new(Sampling { failed: true, ..Default::default() }).tracer;
    assert!(failed.keeps(Duration::ZERO, true) && !failed.keeps(SECOND * 9, false));
}

#[test]
fn ids_have_all_their_digits() {
    assert_eq!((TRACE.to_string().len(), SPAN.to_string().as_str()), (32, "0000000000000001"));
    assert_eq!((TraceId::of(0), SpanId::of(0), SpanId::of(1 << 64)), (None, None, None));
}
