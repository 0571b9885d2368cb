//! An API server for tests, which stores one object.

use std::future::pending;
use std::sync::{Arc, Mutex};

use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use crate::fixtures::client_of;

/// Whether and how the API server answers the requests of one replica.
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

    /// Returns another replica's connection to the same API server.
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

    /// Removes the object, as another client of the API server would.
    pub(crate) fn remove(&self) {
        *self.stored.lock().expect("nobody panicked") = None;
    }

    pub(crate) fn stored(&self) -> Option<Value> {
        self.stored.lock().expect("nobody panicked").clone()
    }

    /// The client of this replica.
    pub(crate) fn client(&self) -> kube::Client {
        let server = self.clone();
        client_of(move |request| server.clone().answer(request))
    }

    async fn answer(self, request: http::Request<Body>) -> (u16, Value) {
        let (head, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let reach = *self.reach.lock().expect("nobody panicked");
        match reach {
            Reach::Answers => self.take(&head.method, &body),
            Reach::Fails => failure(500, "InternalError"),
            Reach::Hangs => pending().await,
        }
    }

    fn take(&self, method: &http::Method, body: &[u8]) -> (u16, Value) {
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

fn failure(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({ "status": "Failure", "message": reason, "reason": reason, "code": code }))
}
