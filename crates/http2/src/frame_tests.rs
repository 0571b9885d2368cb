use super::*;

#[test]
fn a_header_is_read_as_it_was_written() {
    let header = FrameHeader { length: 0xab_cdef, kind: kind::PING, flags: flag::ACK, stream: MAX_31_BITS };
    assert_eq!(header.encode(), [0xab, 0xcd, 0xef, 6, 1, 0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(FrameHeader::parse(&header.encode()), header);
}

#[test]
fn the_reserved_bit_is_dropped() {
    assert_eq!(FrameHeader::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).stream, 1);
}

#[test]
fn padding_is_split_off_where_there_is_enough() {
    let padded = FrameHeader { length: 0, kind: kind::HEADERS, flags: flag::PADDED, stream: 1 };
    let plain = FrameHeader { flags: 0, ..padded };
    assert_eq!(unpad(padded, &[2, b'a', 0, 0]), Some(&b"a"[..]));
    assert_eq!(unpad(padded, &[3, 0, 0, 0]), Some(&[][..]));
    assert_eq!(unpad(padded, &[4, 0, 0, 0]), None);
    assert_eq!(unpad(padded, &[]), None);
    assert_eq!(unpad(plain, &[4, 0]), Some(&[4, 0][..]));
}

#[test]
fn a_goaway_carries_its_reason() {
    let mut out = Vec::new();
    write_goaway(&mut out, 5, ErrorCode::ENHANCE_YOUR_CALM, "calm");
    assert_eq!(out, [&[0, 0, 12, 7, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0xb][..], b"calm"].concat());
}
