//! Helpers that the tests of the webhooks share.

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leno_identity::authority::Authority;
use leno_identity::bundle::TrustBundle;
use serde_json::{Value, json};

use crate::fixtures::client_of;
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

/// An API server that records the paths of its requests. It knows two namespaces: `young`, whose Pods get a proxy, and
/// `late`. It answers the first two requests for `late` with 429, as a busy server does.
#[derive(Clone, Default)]
pub(super) struct ApiServer(Arc<Mutex<Vec<String>>>);

impl ApiServer {
    /// The paths of the requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.0.lock().expect("nobody panicked").clone()
    }

    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        client_of(move |request| ready(server.answer(request.uri().path())))
    }

    fn answer(&self, path: &str) -> (u16, Value) {
        let failure = |code| (code, json!({ "status": "Failure", "message": "no", "reason": "No", "code": code }));
        let asked_before = self.asked().iter().filter(|asked| *asked == path).count();
        self.0.lock().expect("nobody panicked").push(path.to_owned());
        match path {
            "/api/v1/namespaces/young" => {
                let annotations = json!({ "leno.dev/inject": "enabled", "example.org/team": "young" });
                (200, json!({ "metadata": { "name": "young", "annotations": annotations } }))
            }
            "/api/v1/namespaces/late" if asked_before < 2 => failure(429),
            "/api/v1/namespaces/late" => (200, json!({ "metadata": { "name": "late" } })),
            _ => failure(404),
        }
    }
}
