use super::*;

fn take(incomplete: &mut Incomplete, mut input: &[u8], kind: Kind, max_bytes: usize) -> Result<Option<Vec<u8>>, Fault> {
    incomplete.take(&mut input, kind, max_bytes).map(|block| block.map(Cow::into_owned))
}

#[test]
fn a_block_that_is_there_whole_is_not_copied() {
    let mut input = &b"a: b\r\n\r\nrest"[..];
    let block = Incomplete::default().take(&mut input, Kind::Section, 100);
    assert!(matches!(block, Ok(Some(Cow::Borrowed(b"a: b\r\n\r\n")))));
    assert_eq!(input, b"rest");
}

#[test]
fn a_block_is_the_same_wherever_it_is_cut() {
    let whole = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    for first in 0..whole.len() {
        for second in first..whole.len() {
            let mut incomplete = Incomplete::default();
            for part in [&whole[..first], &whole[first..second]] {
                assert_eq!(take(&mut incomplete, part, Kind::Section, 100), Ok(None));
            }
            assert_eq!(take(&mut incomplete, &whole[second..], Kind::Section, 100), Ok(Some(whole.to_vec())));
            assert!(incomplete.is_empty());
        }
    }
}

#[test]
fn an_empty_line_alone_is_a_section() {
    assert_eq!(take(&mut Incomplete::default(), b"\r\na", Kind::Section, 2), Ok(Some(b"\r\n".to_vec())));
}

#[test]
fn a_line_feed_alone_is_refused_wherever_it_is_cut() {
    for whole in [&b"\n"[..], b"a\n", b"a\r\n\n", b"a\r\nb\n\r\n"] {
        for cut in 0..whole.len() {
            let mut incomplete = Incomplete::default();
            let front = take(&mut incomplete, &whole[..cut], Kind::Section, 100);
            let back = take(&mut incomplete, &whole[cut..], Kind::Section, 100);
            assert!([front, back].contains(&Err(Fault::BareLineFeed)), "{whole:?} cut at {cut}");
        }
    }
}

#[test]
fn no_more_than_the_limit_is_kept() {
    let mut incomplete = Incomplete::default();
    assert_eq!(take(&mut incomplete, b"12345", Kind::Line, 6), Ok(None));
    assert_eq!(take(&mut incomplete, b"67", Kind::Line, 6), Err(Fault::TooLong { in_first_line: true }));
    let mut incomplete = Incomplete::default();
    assert_eq!(take(&mut incomplete, b"1\r\n2", Kind::Section, 6), Ok(None));
    assert_eq!(take(&mut incomplete, b"345", Kind::Section, 6), Err(Fault::TooLong { in_first_line: false }));
    let whole = take(&mut Incomplete::default(), b"12345\r\n", Kind::Line, 6);
    assert_eq!(whole, Err(Fault::TooLong { in_first_line: true }));
}
