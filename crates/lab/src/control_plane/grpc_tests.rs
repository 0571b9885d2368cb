use super::*;

#[test]
fn messages_are_taken_one_by_one_and_what_is_cut_off_waits() {
    let mut received = BytesMut::new();
    received.extend_from_slice(&framed(b"first"));
    received.extend_from_slice(&framed(b"second")[..8]);
    assert_eq!(take_message(&mut received), Ok(Some(Bytes::from_static(b"first"))));
    assert_eq!(take_message(&mut received), Ok(None));
    received.extend_from_slice(&framed(b"second")[8..]);
    assert_eq!(take_message(&mut received), Ok(Some(Bytes::from_static(b"second"))));
    assert_eq!(take_message(&mut received), Ok(None));
}

#[test]
fn a_compressed_message_and_one_that_is_too_large_are_refused_by_their_first_bytes() {
    let error = take_message(&mut BytesMut::from(&[1, 0, 0, 0, 0][..])).expect_err("nobody asked for that");
    assert!(error.contains("compressed"), "{error}");
    let error = take_message(&mut BytesMut::from(&[0, 255, 0, 0, 0][..])).expect_err("it is not waited for");
    assert!(error.contains("4278190080 bytes"), "{error}");
}
