use super::*;

fn encoded(input: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    encode(input, &mut output);
    output
}

fn decoded(input: &[u8]) -> Result<Vec<u8>, InvalidHuffman> {
    let mut output = Vec::new();
    decode(input, &mut output).map(|()| output)
}

#[test]
fn codes_built_from_lengths_are_those_of_appendix_b() {
    for (symbol, bits, length) in [
        (usize::from(b'0'), 0x0, 5),
        (usize::from(b't'), 0x9, 5),
        (usize::from(b' '), 0x14, 6),
        (usize::from(b'_'), 0x22, 6),
        (usize::from(b':'), 0x5c, 7),
        (usize::from(b'z'), 0x7b, 7),
        (usize::from(b'&'), 0xf8, 8),
        (usize::from(b'Z'), 0xfd, 8),
        (usize::from(b'!'), 0x3f8, 10),
        (usize::from(b'|'), 0x7fc, 11),
        (usize::from(b'>'), 0xffb, 12),
        (0x00, 0x1ff8, 13),
        (usize::from(b'\\'), 0x7fff0, 19),
        (0x80, 0xfffe6, 20),
        (0xe7, 0x7ffff3, 23),
        (0x09, 0xffffea, 24),
        (0xff, 0x3ffffee, 26),
        (0xfe, 0x7fffff0, 27),
        (0x01, 0x7fffd8, 23),
        (0xf9, 0xffffffe, 28),
        (0x0a, 0x3ffffffc, 30),
        (usize::from(EOS), 0x3fffffff, 30),
    ] {
        let code = CODES[symbol];
        assert_eq!((code.bits, code.length), (bits, length), "symbol {symbol:#x}");
    }
}

#[test]
fn every_pair_of_bytes_round_trips() {
    for first in 0..=255 {
        for second in 0..=255 {
            assert_eq!(decoded(&encoded(&[first, second])).as_deref(), Ok(&[first, second][..]));
        }
    }
}

#[test]
fn random_strings_round_trip() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for _ in 0..2000 {
        let input: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
        assert_eq!(decoded(&encoded(&input)), Ok(input));
    }
}

#[test]
fn texts_of_every_length_round_trip() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for length in 0..100 {
        // Most of these characters have short codes; a few have long codes.
        let text: Vec<u8> = (0..length).map(|_| *random.choice(b"0123456789abcdef-/ |~\\").expect("bytes")).collect();
        let bits: usize = text.iter().map(|&byte| usize::from(code(byte).length)).sum();
        let encoded = encoded(&text);
        assert_eq!(encoded.len(), bits.div_ceil(8));
        assert_eq!(decoded_slowly(&encoded).as_ref(), Ok(&text));
        assert_eq!(decoded(&encoded), Ok(text));
    }
}

/// Decodes bit by bit, as the RFC describes it.
fn decoded_slowly(input: &[u8]) -> Result<Vec<u8>, InvalidHuffman> {
    let mut output = Vec::new();
    let (mut bits, mut length) = (0u32, 0u8);
    for bit in input.iter().flat_map(|byte| (0..8).rev().map(move |shift| byte >> shift & 1)) {
        bits = bits << 1 | u32::from(bit);
        length += 1;
        if let Some(symbol) = CODES.iter().position(|code| (code.bits, code.length) == (bits, length)) {
            output.push(u8::try_from(symbol).map_err(|_| InvalidHuffman)?);
            (bits, length) = (0, 0);
        }
    }
    let padded = length <= 7 && bits == (1 << length) - 1;
    if padded { Ok(output) } else { Err(InvalidHuffman) }
}

#[test]
fn random_bytes_decode_as_a_bit_by_bit_decoder_says() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let mut valid = 0;
    for _ in 0..3000 {
        // Most bits are 1, so that long codes, EOS and all kinds of padding occur.
        let input: Vec<u8> = (0..random.usize(..12)).map(|_| random.u8(..) | random.u8(..) | random.u8(..)).collect();
        let expected = decoded_slowly(&input);
        valid += usize::from(expected.is_ok());
        assert_eq!(decoded(&input), expected, "{input:02x?}");
    }
    assert!((100..2900).contains(&valid), "{valid} of the inputs are valid");
}

#[test]
fn empty_string_is_valid() {
    assert_eq!(decoded(&[]), Ok(Vec::new()));
}

#[test]
fn a_whole_byte_of_padding_is_an_error() {
    // `a` is 00011, then three bits of padding.
    assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
    assert_eq!(decoded(&[0b0001_1111, 0xff]), Err(InvalidHuffman));
    assert_eq!(decoded(&[0xff]), Err(InvalidHuffman));
}

#[test]
fn padding_that_is_not_all_ones_is_an_error() {
    assert_eq!(decoded(&[0b0001_1110]), Err(InvalidHuffman));
    assert_eq!(decoded(&[0b0001_1000]), Err(InvalidHuffman));
}

#[test]
fn eos_within_a_string_is_an_error() {
    assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(InvalidHuffman));
    // `a`, 30 ones and five bits for another `a`.
    assert_eq!(decoded(&[0b0001_1111, 0xff, 0xff, 0xff, 0b1110_0011]), Err(InvalidHuffman));
}

#[test]
fn output_is_at_most_eight_fifths_of_the_input() {
    let input = [0; 5000];
    let mut output = Vec::new();
    decode(&input, &mut output).expect("eight zeros of five bits each in five bytes");
    assert_eq!(output.len(), 8000);
    assert!(output.capacity() <= 8000, "{}", output.capacity());
}
