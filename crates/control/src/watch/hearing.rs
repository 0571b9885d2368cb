//! Measures how long each watch has been silent. An API server sends an event, a bookmark or a response at least every
//! two minutes, so a watch with a longer silence misses changes. kube does not pass bookmarks on, so we observe the
//! bytes of the responses below kube.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Bytes};
use hyper::{Method, Request, Response};
use tokio::time::Instant;
use tower_service::Service;

/// For each watched resource, such as `pods`, the moment at which the API server last sent something for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hearing(Arc<Mutex<BTreeMap<Box<str>, Instant>>>);

/// A watch whose silence is measured until the value is dropped.
#[derive(Debug)]
pub(super) struct Watched {
    hearing: Hearing,
    resource: Box<str>,
}

/// A service that records what the API server sends.
#[derive(Clone)]
pub(crate) struct Listening<S> {
    service: S,
    hearing: Hearing,
}

impl Hearing {
    /// Wraps the service that sends requests to the API server.
    pub(crate) fn listening<S>(&self, service: S) -> Listening<S> {
        Listening { service, hearing: self.clone() }
    }

    /// Begins to measure the silence of a resource's watch.
    pub(super) fn watch(&self, resource: &str) -> Watched {
        self.lock().insert(resource.into(), Instant::now());
        Watched { hearing: self.clone(), resource: resource.into() }
    }

    pub(crate) fn write_metrics(&self, text: &mut String) {
        const NAME: &str = "leno_control_watch_silence_seconds";
        let _ = writeln!(text, "# HELP {NAME} Time since the API server last sent something for a watch.");
        let _ = writeln!(text, "# TYPE {NAME} gauge");
        let now = Instant::now();
        for (resource, heard) in &*self.lock() {
            let silence_s = now.saturating_duration_since(*heard).as_secs();
            let _ = writeln!(text, "{NAME}{{resource=\"{resource}\"}} {silence_s}");
        }
    }

    fn heard(&self, resource: &str) {
        if let Some(heard) = self.lock().get_mut(resource) {
            *heard = Instant::now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Stops the measurement, because the API server does not serve the resource. [`Self::is_served`] starts it again.
    pub(super) fn is_absent(&self) {
        self.hearing.lock().remove(&self.resource);
    }

    /// Begins the measurement again if it was stopped.
    pub(super) fn is_served(&self) {
        self.hearing.lock().entry(self.resource.clone()).or_insert_with(Instant::now);
    }

    /// The moment at which the API server last sent something for the watch, or at which the measurement began; `None`
    /// while the measurement is stopped.
    pub(super) fn heard_at(&self) -> Option<Instant> {
        self.hearing.lock().get(&self.resource).copied()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.hearing.lock().remove(&self.resource);
    }
}

impl<S, R, B> Service<Request<R>> for Listening<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, B::Error>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        // The path of a list or a watch ends with the resource's name.
        let resource = request.uri().path().rsplit('/').next().filter(|_| is_list_or_watch(&request));
        let resource: Box<str> = resource.unwrap_or_default().into();
        let (answer, hearing) = (self.service.call(request), self.hearing.clone());
        Box::pin(async move {
            let response = answer.await?;
            if !response.status().is_success() {
                return Ok(response.map(BodyExt::boxed_unsync));
            }
            hearing.heard(&resource);
            let listen = move |frame| {
                hearing.heard(&resource);
                frame
            };
            Ok(response.map(|body| body.map_frame(listen).boxed_unsync()))
        })
    }
}

/// Whether a request to the API server lists or watches objects. kube sends the parameters `limit` or `watch` with such
/// a request, and no parameter if it reads one object.
pub(crate) fn is_list_or_watch<R>(request: &Request<R>) -> bool {
    request.method() == Method::GET && request.uri().query().is_some_and(|query| !query.is_empty())
}

#[cfg(test)]
#[path = "hearing_tests.rs"]
mod tests;
