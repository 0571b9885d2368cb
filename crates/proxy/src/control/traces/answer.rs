//! Takes malformed error details out of a collector's answers, before tonic reads them.
//!
//! tonic 0.14.9 panics if `grpc-status-details-bin` is not base64, and a panic ends the proxy.

use http_body_util::BodyExt as _;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::http::{HeaderMap, Response};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tower::ServiceExt as _;

const DETAILS: &str = "grpc-status-details-bin";

/// Returns a service that sends requests over the channel, and leaves malformed error details out of the answers.
pub(super) fn without_malformed_details(
    channel: Channel,
) -> impl GrpcService<Body, ResponseBody = Body, Error = tonic::transport::Error> {
    channel.map_response(|mut answer: Response<Body>| {
        remove_malformed_details(answer.headers_mut());
        answer.map(|body| {
            Body::new(body.map_frame(|mut frame| {
                if let Some(trailers) = frame.trailers_mut() {
                    remove_malformed_details(trailers);
                }
                frame
            }))
        })
    })
}

fn remove_malformed_details(headers: &mut HeaderMap) {
    if !headers.contains_key(DETAILS) {
        return;
    }
    let mut metadata = MetadataMap::from_headers(std::mem::take(headers));
    if metadata.get_bin(DETAILS).is_some_and(|details| details.to_bytes().is_err()) {
        metadata.remove_bin(DETAILS);
    }
    *headers = metadata.into_headers();
}
