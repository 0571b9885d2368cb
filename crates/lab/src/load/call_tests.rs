use http::HeaderValue;

use super::*;

fn trailers(status: &'static str, message: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, HeaderValue::from_static(status));
    trailers.insert("grpc-message", HeaderValue::from_static(message));
    trailers
}

#[test]
fn a_status_is_told_by_its_name_with_its_message_decoded() {
    assert_eq!(check_status(&trailers("0", "")), Ok(()));
    let failure = check_status(&trailers("14", "no endpoint%3A busy")).expect_err("a status that is not OK");
    assert_eq!(failure, Failure::new(FailureClass::Grpc(14), "Unavailable: no endpoint: busy"));
    let failure = check_status(&HeaderMap::new()).expect_err("no status");
    assert_eq!(failure, Failure::protocol("the answer's trailers have no grpc-status"));
}
