use super::super::call::framed;
use super::*;
use crate::echo::proto::EchoResponse;

fn body(payload_bytes: usize) -> Bytes {
    let response = EchoResponse { server: "s1".to_owned(), payload: vec![b'x'; payload_bytes], number: 3 };
    framed(&response.encode_to_vec())
}

/// Reads a body that arrives in `parts`, one after the other, and that must have `wanted` messages.
fn read<'a>(parts: impl IntoIterator<Item = &'a [u8]>, wanted: u32) -> Result<Bytes, String> {
    let mut inbox = Inbox::default();
    for part in parts {
        inbox.add(Bytes::copy_from_slice(part));
        while inbox.take_message()? {}
    }
    Ok(inbox.finish(wanted)?)
}

#[test]
fn the_name_is_read_from_a_whole_message_and_the_rest_is_skipped() {
    assert_eq!(read([&body(50)[..]], 1), Ok(Bytes::from_static(b"s1")));
}

#[test]
fn messages_are_found_wherever_the_body_is_cut() {
    let two = [body(50), body(0)].concat();
    for length in [1, 3, 5, 7, two.len()] {
        assert_eq!(read(two.chunks(length), 2), Ok(Bytes::from_static(b"s1")), "parts of {length} bytes");
    }
}

#[test]
fn a_body_with_another_number_of_messages_is_a_failure() {
    let body = body(0);
    let wrong = |body: &[u8]| read([body], 1).expect_err("not one message");
    assert_eq!(wrong(&[]), "the answer should have 1 messages, and has 0");
    assert_eq!(wrong(&[&body[..], &body[..]].concat()), "the answer should have 1 messages, and has 2");
    assert_eq!(wrong(&body[..body.len() - 1]), "the answer ended within a message, after 10 bytes");
    assert!(wrong(&[&[1], &body[1..]].concat()).contains("compressed"));
}

#[test]
fn messages_of_any_type_have_a_nameless_server() {
    let mut inbox = Inbox::nameless();
    inbox.add(framed(b"\xff\xff no message of ours"));
    assert_eq!(inbox.take_message(), Ok(true));
    assert_eq!(inbox.finish(1), Ok(Bytes::from_static(b"server")));
}

#[test]
fn a_message_over_the_limit_is_a_failure_before_it_arrives() {
    let mut inbox = Inbox::nameless();
    inbox.add(Bytes::from_static(&[0, 0xff, 0, 0, 0]));
    let failure = inbox.take_message().expect_err("too long");
    assert!(failure.why.contains("4278190080 bytes"), "{failure:?}");
}
