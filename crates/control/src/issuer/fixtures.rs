//! Helpers that the tests of the issuer share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use http_body_util::BodyExt;
use kube::client::Body;
use leno_identity::authority::Authority;
use leno_identity::bundle::TrustBundle;
use serde_json::{Value, json};

use super::Signing;
use crate::fixtures::client_of;

/// The signature of every token that the simulated API server accepts: `signed` in base64url.
pub(super) const SIGNATURE: &str = "c2lnbmVk";

/// An authority of `cluster.local`.
pub(crate) fn signing() -> Arc<Signing> {
    let now = SystemTime::now();
    let anchor = Authority::create_anchor("cluster.local".parse().expect("a trust domain"), now).expect("an anchor");
    let issuing = anchor.delegate(now, Duration::from_secs(24 * 60 * 60)).expect("an authority");
    let bundle = TrustBundle::new(anchor.certificates().to_vec()).expect("a bundle");
    Arc::new(Signing::new(Arc::new(issuing), bundle))
}

/// A token with these claims, and with the signature that the simulated API server accepts.
pub(super) fn token(claims: &Value) -> String {
    let header = json!({ "alg": "RS256", "kid": "key" });
    format!("{}.{}.{SIGNATURE}", encoded(&header), encoded(claims))
}

/// A valid token of the ServiceAccount `shop/cart`, issued by `issuer`.
pub(super) fn good_token(issuer: &str) -> String {
    token(
        &json!({ "iss": issuer, "aud": ["leno.dev"], "exp": 4_000_000_000_u64, "sub": "system:serviceaccount:shop:cart" }),
    )
}

/// The same token as from [`good_token`], but with a wrong signature, which only the API server can detect.
pub(super) fn forged_token(issuer: &str) -> String {
    good_token(issuer).replace(SIGNATURE, "Zm9yZ2Vk")
}

fn encoded(value: &Value) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let text = value.to_string();
    let bits: Vec<u8> = text.bytes().flat_map(|byte| (0..8).rev().map(move |place| byte >> place & 1)).collect();
    let number = |group: &[u8]| (0..6).fold(0, |number, place| number << 1 | group.get(place).copied().unwrap_or(0));
    bits.chunks(6).map(|group| char::from(ALPHABET[usize::from(number(group))])).collect()
}

/// A simulated API server that takes the time `takes` to review a token, and counts the reviews.
#[derive(Clone)]
pub(super) struct ApiServer {
    takes: Duration,
    asked: Arc<AtomicUsize>,
}

impl ApiServer {
    pub(super) fn new(takes: Duration) -> Self {
        Self { takes, asked: Arc::default() }
    }

    /// Number of tokens that the API server has reviewed.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        client_of(move |request| server.clone().answer(request))
    }

    async fn answer(self, request: http::Request<Body>) -> (u16, Value) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let body = request.into_body().collect().await.expect("a body").to_bytes();
        let mut review: Value = serde_json::from_slice(&body).expect("a review");
        tokio::time::sleep(self.takes).await;
        let is_signed = review["spec"]["token"].as_str().is_some_and(|token| token.ends_with(SIGNATURE));
        review["status"] = match is_signed {
            true => json!({
                "authenticated": true, "audiences": ["leno.dev"], "user": { "username": "system:serviceaccount:shop:cart" }
            }),
            false => json!({ "authenticated": false, "error": "invalid signature" }),
        };
        (201, review)
    }
}
