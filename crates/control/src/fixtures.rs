//! Helpers that the tests of several modules share.

use std::convert::Infallible;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Subscriber, set_default};
use tracing::{Event, Level, Metadata};

/// Returns the client of a simulated API server, which answers each request with a status code and an object.
pub(crate) fn client_of<A, F>(answer: A) -> kube::Client
where
    A: Fn(http::Request<Body>) -> F + Clone + Send + 'static,
    F: Future<Output = (u16, Value)> + Send + 'static,
{
    let server = move |request| {
        let answered = answer(request);
        async move {
            let (status, object) = answered.await;
            let body = Full::<Bytes>::from(object.to_string());
            Ok::<_, Infallible>(http::Response::builder().status(status).body(body).expect("a response"))
        }
    };
    kube::Client::new(service_fn(server), "default")
}

/// Returns the answer of an API server that refuses a request.
pub(crate) fn refusal(code: u16) -> (u16, Value) {
    (code, json!({ "status": "Failure", "message": "no", "reason": "Refused", "code": code }))
}

/// The warnings that one thread logs.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Collects the warnings of the calling thread until the guard is dropped.
    pub(crate) fn collect() -> (Self, DefaultGuard) {
        let warnings = Self::default();
        let guard = set_default(warnings.clone());
        (warnings, guard)
    }

    /// The warnings so far, each with its message and its fields.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().expect("nobody panicked").clone()
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().expect("nobody panicked").push(line.0);
    }

    // No test reads spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
