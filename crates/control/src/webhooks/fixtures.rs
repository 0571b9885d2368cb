//! Helpers that the tests of the webhooks share.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use kube::client::Body;
use leno_identity::authority::Authority;
use leno_identity::bundle::TrustBundle;
use serde_json::json;
use tower_service::Service;

use crate::issuer::Signing;

pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An authority that is valid for `lifetime` from `start`.
pub(super) fn signing_from(start: SystemTime, lifetime: Duration) -> Arc<Signing> {
    let anchor = Authority::create_anchor("cluster.local".parse().expect("a trust domain"), start).expect("an anchor");
    let issuing = anchor.delegate(start, lifetime).expect("an authority");
    let bundle = TrustBundle::new(anchor.certificates().to_vec()).expect("a bundle");
    Arc::new(Signing::new(Arc::new(issuing), bundle))
}

pub(super) fn signing() -> Arc<Signing> {
    signing_from(SystemTime::now(), DAY * 90)
}

/// An API server that records the paths of its requests. It knows two namespaces: `young`, which injects, and `late`. The
/// first two requests for `late` come while the server is busy.
#[derive(Clone, Default)]
pub(super) struct ApiServer(Arc<Mutex<Vec<String>>>);

impl ApiServer {
    /// The paths of the requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.0.lock().expect("nobody panicked").clone()
    }
}

impl Service<http::Request<Body>> for ApiServer {
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path().to_owned();
        let failure = |code| (code, json!({ "status": "Failure", "message": "no", "reason": "No", "code": code }));
        let asked_before = self.asked().iter().filter(|asked| **asked == path).count();
        let (status, body) = match path.as_str() {
            "/api/v1/namespaces/young" => {
                let annotations = json!({ "leno.dev/inject": "enabled", "example.org/team": "young" });
                (200, json!({ "metadata": { "name": "young", "annotations": annotations } }))
            }
            "/api/v1/namespaces/late" if asked_before < 2 => failure(429),
            "/api/v1/namespaces/late" => (200, json!({ "metadata": { "name": "late" } })),
            _ => failure(404),
        };
        self.0.lock().expect("nobody panicked").push(path);
        let answer = http::Response::builder().status(status).body(Full::from(body.to_string()));
        ready(Ok(answer.expect("a response")))
    }
}
