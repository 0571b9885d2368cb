use super::*;

#[test]
fn a_message_is_framed_with_its_length() {
    assert_eq!(framed(b"ab"), [0, 0, 0, 0, 2, b'a', b'b'].as_slice());
    assert_eq!(framed(&[0; 0x01_02_03])[..5], [0, 0, 1, 2, 3]);
}

#[test]
fn a_unary_body_has_the_asked_size_with_its_prefix() {
    let dir = tempfile::tempdir().expect("a writable temporary directory");
    let body = write_files(70, dir.path()).expect("a writable temporary directory");
    let body = fs::read(body).expect("the file was written");
    assert_eq!(body.len(), 70);
    assert_eq!(body[..5], [0, 0, 0, 0, 65]);
}

#[test]
fn a_stream_message_grows_with_its_number_as_protobuf_does() {
    // Sizes in bytes: 5 for the gRPC prefix, 2 + 7 for the server's name, 2 + 50 for the payload. Protobuf omits the
    // number 0; any other number takes 1 for its tag, plus 1 (up to 127) or 2 for its value.
    assert_eq!(stream_message_bytes(0), 66);
    assert_eq!(stream_message_bytes(127), 68);
    assert_eq!(stream_message_bytes(128), 69);
}
