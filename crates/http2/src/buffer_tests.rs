use super::{OUTPUT_HIGH_WATER_BYTES, OutputBuffer};

fn holding(bytes: usize) -> OutputBuffer {
    let mut output = OutputBuffer::default();
    output.bytes.extend((0..bytes).map(|n| n as u8));
    output
}

#[test]
fn what_the_socket_did_not_take_is_what_waits() {
    let mut output = holding(10);
    output.advance(4, 0);
    output.bytes.push(10);
    assert_eq!((output.waiting(), output.waiting_bytes()), (&[4, 5, 6, 7, 8, 9, 10][..], 7));
}

#[test]
fn an_empty_buffer_keeps_as_much_memory_as_it_may() {
    for (kept_bytes, is_kept) in [(0, false), (usize::MAX, true)] {
        let mut output = holding(1_000);
        output.advance(1_000, kept_bytes);
        assert_eq!((output.waiting(), output.bytes.capacity() > 0), (&[][..], is_kept));
    }
}

#[test]
fn what_has_gone_does_not_pile_up_before_what_waits() {
    let mut output = holding(OUTPUT_HIGH_WATER_BYTES + 10);
    output.advance(OUTPUT_HIGH_WATER_BYTES + 1, usize::MAX);
    assert_eq!((output.waiting_bytes(), output.bytes.len()), (9, 9));
}
