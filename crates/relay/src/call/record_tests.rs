use leno_http2::StreamKey;

use super::*;

#[test]
fn a_grpc_call_that_was_answered_without_a_status_has_failed() {
    let status_of = |content_type: &[u8], http_status| {
        let mut request = FieldSection::new();
        request.push(b"content-type", content_type);
        let key = (None, StreamKey::numbered(1));
        let mut call = Call::new(key, request, Protocol::Http2, true, Instant::now());
        call.http_status = http_status;
        missing_status(&call)
    };
    let unknown = status_of(b"application/grpc", 200);
    assert!(unknown.is_some() && is_failure(200, unknown));
    assert_eq!(status_of(b"application/grpc", 503), None, "the client maps the HTTP status");
    assert_eq!(status_of(b"application/grpc-web", 200), None, "the status is in the content");
    assert_eq!(status_of(b"text/plain", 200), None);
}
