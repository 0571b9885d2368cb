use super::*;

fn decode_all(bytes: &[u8], prefix_bits: u32) -> Result<usize, DecodeError> {
    let (&first, mut input) = bytes.split_first().expect("at least one byte");
    let value = decode(first, prefix_bits, &mut input)?;
    assert!(input.is_empty(), "{} bytes are left", input.len());
    Ok(value)
}

fn encoded(value: usize, prefix_bits: u32) -> Vec<u8> {
    let mut output = Vec::new();
    encode(value, prefix_bits, 0, &mut output);
    output
}

#[test]
fn appendix_c_1_examples_are_coded_both_ways() {
    for (value, prefix_bits, bytes) in [(10, 5, &[0x0a][..]), (1337, 5, &[0x1f, 0x9a, 0x0a]), (42, 8, &[0x2a])] {
        assert_eq!(encoded(value, prefix_bits), bytes);
        assert_eq!(decode_all(bytes, prefix_bits), Ok(value));
    }
}

#[test]
fn values_around_every_boundary_round_trip() {
    for prefix_bits in 4..=7 {
        for shift in 0..32 {
            let power = 1usize << shift;
            for value in [power - 1, power, power + 1, u32::MAX as usize] {
                assert_eq!(decode_all(&encoded(value, prefix_bits), prefix_bits), Ok(value));
            }
        }
    }
}

#[test]
fn bits_above_the_prefix_are_the_pattern_and_are_ignored() {
    let mut output = Vec::new();
    encode(5, 5, 0x20, &mut output);
    assert_eq!(output, [0x25]);
    assert_eq!(decode_all(&[0xe5], 5), Ok(5));
}

#[test]
fn missing_continuation_is_truncated() {
    assert_eq!(decode_all(&[0x1f], 5), Err(DecodeError::Truncated));
    assert_eq!(decode_all(&[0x1f, 0x80, 0x80], 5), Err(DecodeError::Truncated));
}

#[test]
fn more_than_32_bits_overflow() {
    assert_eq!(decode_all(&encoded(u32::MAX as usize + 1, 7), 7), Err(DecodeError::IntegerOverflow));
    assert_eq!(decode_all(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0x7f], 7), Err(DecodeError::IntegerOverflow));
}

#[test]
fn endless_zero_continuation_overflows_instead_of_going_on() {
    assert_eq!(decode_all(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], 7), Err(DecodeError::IntegerOverflow));
}
