//! An API server for tests, which stores one object.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service;

/// How the API server treats one replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reach {
    Answers,
    /// Requests fail at once.
    Fails,
    /// Requests get no answer.
    Hangs,
}

/// One replica's connection to an API server that stores one object.
#[derive(Clone)]
pub(crate) struct Store {
    stored: Arc<Mutex<Option<Value>>>,
    reach: Arc<Mutex<Reach>>,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self { stored: Arc::default(), reach: Arc::new(Mutex::new(Reach::Answers)) }
    }

    /// The connection of another replica.
    pub(crate) fn for_another(&self) -> Self {
        Self { stored: self.stored.clone(), ..Self::new() }
    }

    pub(crate) fn set(&self, reach: Reach) {
        *self.reach.lock().expect("nobody panicked") = reach;
    }

    /// Stores an object, as another client of the API server would.
    pub(crate) fn put(&self, object: Value) {
        *self.stored.lock().expect("nobody panicked") = Some(object);
    }

    pub(crate) fn stored(&self) -> Option<Value> {
        self.stored.lock().expect("nobody panicked").clone()
    }

    fn answer(&self, method: &http::Method, body: &[u8]) -> (u16, Value) {
        let failure = |code: u16, reason: &str| {
            (code, json!({ "status": "Failure", "message": "", "reason": reason, "code": code }))
        };
        let mut stored = self.stored.lock().expect("nobody panicked");
        let version = stored.as_ref().map(|object| object["metadata"]["resourceVersion"].clone());
        if method == http::Method::GET {
            return stored.clone().map_or_else(|| failure(404, "NotFound"), |object| (200, object));
        }
        let mut object: Value = serde_json::from_slice(body).expect("an object");
        if method == http::Method::POST && version.is_some()
            || method == http::Method::PUT && version.as_ref() != Some(&object["metadata"]["resourceVersion"])
        {
            return failure(409, "Conflict");
        }
        let number: u64 = version.and_then(|version| version.as_str()?.parse().ok()).unwrap_or(0);
        object["metadata"]["resourceVersion"] = json!((number + 1).to_string());
        *stored = Some(object.clone());
        (200, object)
    }
}

impl Service<http::Request<Body>> for Store {
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let reach = *server.reach.lock().expect("nobody panicked");
            let (status, body) = match reach {
                Reach::Answers => server.answer(&head.method, &body),
                Reach::Fails => {
                    (500, json!({ "status": "Failure", "message": "away", "reason": "InternalError", "code": 500 }))
                }
                Reach::Hangs => pending().await,
            };
            Ok(http::Response::builder().status(status).body(Full::from(body.to_string())).expect("a response"))
        })
    }
}
