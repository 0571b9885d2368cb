//! Helpers that the tests of several modules share.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use kube::client::Body;
use serde_json::Value;
use tower::service_fn;

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
