use http::HeaderValue;

use super::*;
use crate::echo::proto::EchoResponse;

fn trailers(status: &'static str, message: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, HeaderValue::from_static(status));
    trailers.insert("grpc-message", HeaderValue::from_static(message));
    trailers
}

#[test]
fn the_name_is_read_from_a_whole_message_and_the_rest_is_skipped() {
    let response = EchoResponse { server: "s1".to_owned(), payload: vec![b'x'; 50], number: 3 };
    assert_eq!(server_name(&framed(&response.encode_to_vec())), Ok(Bytes::from_static(b"s1")));
}

#[test]
fn a_body_that_is_not_one_message_is_a_failure() {
    let body = framed(&EchoResponse { server: "s1".to_owned(), ..EchoResponse::default() }.encode_to_vec());
    let wrong = |body: &[u8]| server_name(&Bytes::copy_from_slice(body)).expect_err("not one message");
    assert!(wrong(&[]).contains("0 bytes"));
    assert!(wrong(&body[..body.len() - 1]).contains("should have 4 bytes, and has 3"));
    assert!(wrong(&[&body[..], &body[..]].concat()).contains("should have 4 bytes, and has 13"));
    assert!(wrong(&[&[1], &body[1..]].concat()).contains("compressed"));
}

#[test]
fn a_message_that_comes_in_parts_is_put_together() {
    let body = framed(&EchoResponse { server: "s1".to_owned(), ..EchoResponse::default() }.encode_to_vec());
    let mut message = Bytes::new();
    for part in body.chunks(3) {
        join(&mut message, Bytes::copy_from_slice(part));
    }
    assert_eq!(message, body);
}

#[test]
fn a_status_is_told_by_its_name_with_its_message_decoded() {
    assert_eq!(check_status(&trailers("0", "")), Ok(()));
    let why = check_status(&trailers("14", "no endpoint%3A busy"));
    assert_eq!(why, Err("Unavailable: no endpoint: busy".to_owned()));
    assert_eq!(check_status(&HeaderMap::new()), Err("the answer's trailers have no grpc-status".to_owned()));
}
