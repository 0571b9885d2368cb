use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;

use super::*;

/// Counts the lines that pass the limit.
#[derive(Clone, Default)]
struct Counter(Arc<Mutex<u32>>);

impl Counter {
    fn count(&self) -> u32 {
        *self.0.lock().expect("no thread panicked")
    }
}

impl<S: Subscriber> Layer<S> for Counter {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        *self.0.lock().expect("no thread panicked") += 1;
    }
}

/// The metadata of the last log statement that was reached.
#[derive(Clone, Default)]
struct Reached(Arc<Mutex<Option<&'static Metadata<'static>>>>);

impl<S: Subscriber> Layer<S> for Reached {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        *self.0.lock().expect("no thread panicked") = Some(event.metadata());
    }
}

#[test]
fn lines_that_were_left_out_are_reported_even_if_the_place_logs_again_before_the_report() {
    let reached = Reached::default();
    let subscriber = tracing_subscriber::registry().with(reached.clone());
    tracing::subscriber::with_default(subscriber, || tracing::warn!("an object is invalid"));
    let metadata = reached.0.lock().expect("no thread panicked").expect("the statement was reached");
    let began = Instant::now();
    for (namespace, window, lines_max) in
        [(None, WINDOW, LINES_MAX), (Some("busy"), NAMESPACE_WINDOW, NAMESPACE_LINES_MAX)]
    {
        let limit = Limit::default();
        let lines = (0..lines_max + 5).filter(|_| limit.allows(metadata, namespace, began));
        assert_eq!(lines.count(), lines_max as usize);
        assert!(!limit.allows(metadata, namespace, began + window), "the report comes first");
        let left_out = limit.take_left_out(began + window);
        let [LeftOut { lines: 6, .. }] = left_out[..] else { panic!("{left_out:?}") };
        assert!(limit.allows(metadata, namespace, began + window), "a new window begins");
    }
}

#[test]
fn one_place_writes_a_bounded_number_of_lines_and_the_rest_is_counted() {
    let (counter, limit) = (Counter::default(), Limit::default());
    let subscriber = tracing_subscriber::registry().with(counter.clone().with_filter(limit.clone()));
    tracing::subscriber::with_default(subscriber, || {
        for client in 0..100_000 {
            tracing::info!(client, "is disconnected");
        }
        tracing::warn!("another place");
    });
    // Nothing reports the lines that were left out, so no further window begins.
    let written = counter.count();
    assert_eq!(written, LINES_MAX + 1);
    let left_out = limit.take_left_out(Instant::now() + WINDOW);
    let [LeftOut { lines, namespace: None, .. }] = left_out[..] else {
        panic!("one place left lines out: {left_out:?}")
    };
    assert_eq!(lines + u64::from(written), 100_001);
    assert!(limit.take_left_out(Instant::now() + WINDOW).is_empty(), "they are told once");
}

#[test]
fn lines_that_an_operator_asks_for_are_not_limited() {
    let counter = Counter::default();
    let subscriber = tracing_subscriber::registry().with(counter.clone().with_filter(Limit::default()));
    tracing::subscriber::with_default(subscriber, || (0..1_000).for_each(|n| tracing::debug!(n, "detail")));
    assert_eq!(counter.count(), 1_000);
}

#[test]
fn one_namespace_does_not_use_up_the_lines_about_others() {
    let (counter, limit) = (Counter::default(), Limit::default());
    let subscriber = tracing_subscriber::registry().with(counter.clone().with_filter(limit.clone()));
    let warn = |namespace: &str| tracing::warn!(%namespace, "an object is invalid");
    let began = Instant::now();
    tracing::subscriber::with_default(subscriber, || {
        (0..1_000).for_each(|_| warn("busy"));
        let of_busy = counter.count();
        warn("quiet");
        assert_eq!(counter.count(), of_busy + 1);
    });
    let of_busy = counter.count() - 1;
    assert_eq!(of_busy, NAMESPACE_LINES_MAX);
    assert!(limit.take_left_out(began).is_empty(), "the window has not ended");
    let left_out = limit.take_left_out(Instant::now() + NAMESPACE_WINDOW);
    let [LeftOut { namespace: Some(namespace), lines, .. }] = &left_out[..] else { panic!("{left_out:?}") };
    assert_eq!((&**namespace, lines + u64::from(of_busy)), ("busy", 1_000));
    assert!(limit.lock().namespaces.is_empty(), "counts end with their windows");
}

#[test]
fn the_number_of_counted_namespaces_is_bounded() {
    let (counter, limit) = (Counter::default(), Limit::default());
    let subscriber = tracing_subscriber::registry().with(counter.with_filter(limit.clone()));
    tracing::subscriber::with_default(subscriber, || {
        for namespace in 0..2 * NAMESPACES_MAX {
            tracing::warn!(namespace = format!("tenant-{namespace}"), "an object is invalid");
        }
    });
    assert_eq!(limit.lock().namespaces.len(), NAMESPACES_MAX);
}
