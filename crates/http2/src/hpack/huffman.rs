//! The Huffman code for strings (RFC 7541 section 5.2 and Appendix B).
//!
//! The code is canonical: in the order of length and then of symbol, each code is the previous code plus one, and zeros
//! are appended if the code is longer. So the lengths alone define all codes, and the tables below are built from the
//! lengths at compile time. Nearly all codes that a peer sends have at most 8 bits; such a code is found by its first
//! byte. A longer code is found by the range of the codes of its length.

/// The length of each symbol's code in bits; the last symbol is the end of the string (EOS).
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

const SYMBOLS: usize = 257;
const EOS: u16 = 256;
const MIN_CODE_BITS: usize = 5;
const MAX_CODE_BITS: u32 = 30;
/// Number of symbols that are decoded in one step if their codes are short.
const GROUP: usize = 4;
/// Maximum total length of the codes of a group, in bits. No single code is longer than this.
const GROUP_BITS: u32 = 8 * GROUP as u32;
const MAX_PADDING_BITS: u32 = 7;
const LENGTH_COUNT: usize = MAX_CODE_BITS as usize + 1;

/// The code of one symbol, right-aligned.
#[derive(Clone, Copy)]
struct Code {
    bits: u32,
    length: u8,
}

/// The result of looking up the next eight bits: the first symbol in them and the length of its code. Length 0 means
/// that these bits begin a longer code.
#[derive(Clone, Copy)]
struct Short {
    symbol: u8,
    length: u8,
}

/// The codes of one length, left-aligned to 32 bits.
#[derive(Clone, Copy)]
struct Range {
    first: u64,
    end: u64,
    /// Number of symbols with shorter codes.
    shorter: usize,
}

/// EOS within the string, or padding that is too long or not the beginning of EOS (RFC 7541 section 5.2).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidHuffman;

static CODES: [Code; SYMBOLS] = codes();
static SHORT: [Short; 256] = short_codes();
static SORTED: [u16; SYMBOLS] = sorted_symbols();
static RANGES: [Range; LENGTH_COUNT] = ranges();

/// Decodes `input`, a whole string, and appends the result to `output`. The result has at most 8/5 of the input's
/// length.
pub(super) fn decode(input: &[u8], output: &mut Vec<u8>) -> Result<(), InvalidHuffman> {
    output.reserve(input.len() * 8 / MIN_CODE_BITS);
    let mut window = Window { bits: 0, count: 0, rest: input };
    loop {
        window.refill();
        if let Some(symbols) = window.next_group() {
            output.extend_from_slice(&symbols);
            continue;
        }
        let (symbol, length) = first_symbol(window.bits);
        if length > window.count {
            return window.check_padding();
        }
        output.push(u8::try_from(symbol).map_err(|_| InvalidHuffman)?);
        window.bits <<= length;
        window.count -= length;
    }
}

/// The next bits, left-aligned and followed by zeros, and the bytes after them.
struct Window<'a> {
    bits: u64,
    count: u32,
    rest: &'a [u8],
}

impl Window<'_> {
    /// Takes the next [`GROUP`] symbols, if each of their codes has at most 8 bits, and if the window holds at least
    /// [`GROUP_BITS`] bits.
    fn next_group(&mut self) -> Option<[u8; GROUP]> {
        if self.count < GROUP_BITS {
            return None;
        }
        let mut bits = self.bits;
        let mut count = self.count;
        let mut all_short = true;
        let symbols = [(); GROUP].map(|()| {
            let short = SHORT.get((bits >> 56) as usize).copied().unwrap_or(Short { symbol: 0, length: 0 });
            bits <<= short.length;
            count -= u32::from(short.length);
            all_short &= short.length != 0;
            short.symbol
        });
        if !all_short {
            return None;
        }
        (self.bits, self.count) = (bits, count);
        Some(symbols)
    }

    /// Ensures that the window holds the codes of a group, or the rest of the string.
    fn refill(&mut self) {
        if self.count >= GROUP_BITS {
            return;
        }
        if let Some((bytes, rest)) = self.rest.split_first_chunk::<4>() {
            self.bits |= u64::from(u32::from_be_bytes(*bytes)) << (32 - self.count);
            self.count += 32;
            self.rest = rest;
            return;
        }
        while let Some((&byte, rest)) = self.rest.split_first() {
            self.bits |= u64::from(byte) << (56 - self.count);
            self.count += 8;
            self.rest = rest;
        }
    }

    /// Checks that the bits after the last symbol are the beginning of EOS: all ones, and fewer than eight.
    fn check_padding(&self) -> Result<(), InvalidHuffman> {
        let ones = !(u64::MAX >> self.count.min(63));
        if self.count <= MAX_PADDING_BITS && self.bits == ones { Ok(()) } else { Err(InvalidHuffman) }
    }
}

/// The first symbol in `bits`, and the length of its code. If this length exceeds the number of bits that are left of
/// the string, there is no symbol.
fn first_symbol(bits: u64) -> (u16, u32) {
    match SHORT.get((bits >> 56) as usize) {
        Some(short) if short.length != 0 => (u16::from(short.symbol), u32::from(short.length)),
        _ => first_long_symbol(bits >> 32),
    }
}

/// Does the same as [`first_symbol`], but takes 32 bits and finds codes of any length.
#[cold]
fn first_long_symbol(bits: u64) -> (u16, u32) {
    let range = (0..).zip(&RANGES).find(|(_, range)| bits < range.end);
    // `find` always returns a range: the code is complete, so the last range ends at 2^32.
    let Some((length, range)) = range else {
        return (EOS, MAX_CODE_BITS);
    };
    let offset = (bits - range.first) >> (32 - length);
    let symbol = SORTED.get(range.shorter + offset as usize).copied().unwrap_or(EOS);
    (symbol, length)
}

/// Encodes `input`, pads the code with ones to a whole byte, and appends it to `output`.
pub(super) fn encode(input: &[u8], output: &mut Vec<u8>) {
    // The lowest `count` bits of `bits` are not yet written. `count` is below 32 whenever a code is added.
    let mut bits: u64 = 0;
    let mut count = 0;
    for &byte in input {
        let code = code(byte);
        bits = bits << code.length | u64::from(code.bits);
        count += u32::from(code.length);
        if count >= 32 {
            count -= 32;
            output.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    while count >= 8 {
        count -= 8;
        output.push((bits >> count) as u8);
    }
    if count > 0 {
        let padding = 8 - count;
        output.push((bits << padding) as u8 | ((1 << padding) - 1));
    }
}

fn code(byte: u8) -> Code {
    // The fallback is never used: the table has a code for every byte.
    CODES.get(usize::from(byte)).copied().unwrap_or(Code { bits: 0, length: 0 })
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
const fn sorted_symbols() -> [u16; SYMBOLS] {
    let mut sorted = [0; SYMBOLS];
    let mut next = 0;
    let mut length = 0;
    while length < LENGTH_COUNT {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                sorted[next] = symbol as u16;
                next += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    sorted
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
const fn codes() -> [Code; SYMBOLS] {
    let sorted = sorted_symbols();
    let mut codes = [Code { bits: 0, length: 0 }; SYMBOLS];
    let mut next = 0;
    let mut last_length = 0;
    let mut place = 0;
    while place < SYMBOLS {
        let symbol = sorted[place] as usize;
        let length = LENGTHS[symbol];
        next <<= length - last_length;
        codes[symbol] = Code { bits: next, length };
        next += 1;
        last_length = length;
        place += 1;
    }
    assert!(next == 1 << MAX_CODE_BITS, "the code leaves no bits undefined");
    codes
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
const fn short_codes() -> [Short; 256] {
    let codes = codes();
    let mut short = [Short { symbol: 0, length: 0 }; 256];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        let Code { bits, length } = codes[symbol];
        if length <= 8 {
            let first = (bits << (8 - length)) as usize;
            let mut byte = first;
            while byte < first + (1 << (8 - length)) {
                short[byte] = Short { symbol: symbol as u8, length };
                byte += 1;
            }
        }
        symbol += 1;
    }
    short
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
const fn ranges() -> [Range; LENGTH_COUNT] {
    let mut ranges = [Range { first: 0, end: 0, shorter: 0 }; LENGTH_COUNT];
    let mut first = 0;
    let mut shorter = 0;
    let mut length = 0;
    while length < LENGTH_COUNT {
        let mut count = 0;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                count += 1;
            }
            symbol += 1;
        }
        let end = first + ((count as u64) << (32 - length));
        ranges[length] = Range { first, end, shorter };
        first = end;
        shorter += count;
        length += 1;
    }
    ranges
}

#[cfg(test)]
#[path = "huffman_tests.rs"]
mod tests;
