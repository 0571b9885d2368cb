use super::{MANY, Messages};

fn message(bytes: usize) -> Vec<u8> {
    let mut message = vec![0];
    message.extend(u32::try_from(bytes).expect("it is short").to_be_bytes());
    message.resize(message.len() + bytes, 7);
    message
}

/// Reads `stream` in pieces of `size` bytes. Returns how many messages began.
fn read(stream: &[u8], size: usize) -> u32 {
    let mut messages = Messages::default();
    for piece in stream.chunks(size) {
        messages.read(piece);
    }
    messages.begun()
}

#[test]
fn messages_are_counted_wherever_frames_divide_them() {
    let stream = [message(3), message(0), message(300), message(1), message(70_000)].concat();
    for size in [1, 2, 3, 4, 5, 6, 7, 100, 1_000, stream.len()] {
        assert_eq!(read(&stream, size), 5, "in pieces of {size} bytes");
    }
}

#[test]
fn one_whole_message_is_one() {
    assert_eq!(read(&message(70), 100), 1);
    assert_eq!(read(&message(0), 100), 1);
    assert_eq!(read(&[], 1), 0);
}

#[test]
fn new_messages_are_taken_once() {
    let mut messages = Messages::default();
    messages.read(&message(70));
    assert_eq!(messages.take_new(), 1);
    assert_eq!(messages.take_new(), 0);
    messages.read(&[message(1), message(2)].concat());
    assert_eq!(messages.take_new(), 2);
    assert_eq!(messages.begun(), 3);
}

#[test]
fn a_length_that_never_comes_true_counts_as_one_message() {
    let mut messages = Messages::default();
    messages.read(&[1, 255, 255, 255, 255]);
    for _ in 0..100 {
        messages.read(&[0; 1_000]);
    }
    assert_eq!(messages.begun(), 1);
}

#[test]
fn a_whole_message_after_a_part_of_a_prefix_is_content() {
    let mut messages = Messages::default();
    messages.read(&[0]);
    // This prefix announces a message of 2^24 bytes. So the next bytes are content, although they look like a message.
    messages.read(&[1, 0, 0, 0]);
    messages.read(&message(70));
    assert_eq!(messages.begun(), 1);
}

#[test]
fn a_prefix_that_is_cut_off_is_no_message() {
    assert_eq!(read(&[0, 0, 0, 0], 1), 0);
}

#[test]
fn many_messages_are_counted_at_once() {
    let mut messages = Messages::default();
    for _ in 1..MANY {
        assert!(!messages.read(&message(1)));
    }
    assert!(messages.read(&message(1)) && messages.has_new());
    assert_eq!(messages.take_new(), MANY);
    assert!(!messages.read(&message(1)) && messages.has_new());
}
