use super::*;

#[test]
fn attributes_have_their_length_and_are_padded() {
    let inner = Attributes::default().number(2, 0x0102_0304);
    let Attributes(bytes) = Attributes::default().text(1, "lo").nested(4, &inner);
    let expected: Vec<u8> = [
        [7_u16.to_ne_bytes(), 1_u16.to_ne_bytes()].concat(),
        b"lo\0\0".to_vec(),
        [12_u16.to_ne_bytes(), 0x8004_u16.to_ne_bytes()].concat(),
        [8_u16.to_ne_bytes(), 2_u16.to_ne_bytes()].concat(),
        vec![1, 2, 3, 4],
    ]
    .concat();
    assert_eq!(bytes, expected);
}

#[test]
fn a_batch_is_messages_between_a_beginning_and_an_end_numbered_in_order() {
    let mut batch = Batch::new();
    batch.add(0, 0x400, 1, &Attributes::default());
    batch.add(6, 0x400, 1, &Attributes::default().text(1, "leno"));
    let bytes = batch.finish();
    let mut rest = bytes.as_slice();
    let mut messages = Vec::new();
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        let (message, after) = rest.split_at(u32::from_ne_bytes(*length) as usize);
        let number = |at: usize| u16::from_ne_bytes([message[at], message[at + 1]]);
        messages.push((number(4), number(6), message[8], message[16..].to_vec()));
        rest = after;
    }
    let table = [&[1, 0, 0, 0][..], &9_u16.to_ne_bytes(), &1_u16.to_ne_bytes(), b"leno\0\0\0\0"].concat();
    let expected = [
        (0x10, 0x1, 0, vec![0, 0, 0, 10]),
        (0x0a00, 0x401, 1, vec![1, 0, 0, 0]),
        // Only the last message before the end of the batch requests an answer.
        (0x0a06, 0x405, 2, table),
        (0x11, 0x1, 3, vec![0, 0, 0, 10]),
    ];
    assert_eq!(messages, expected);
}
