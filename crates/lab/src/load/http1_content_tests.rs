use super::*;

/// Looks for the end of the content after each further byte of the answer, as if the bytes arrived one by one. Returns
/// the number of bytes after the header section, chunk sizes included; `None` if no end is found.
fn end_of(head: &str, content: &str) -> Result<Option<usize>, String> {
    let (whole, start) = (format!("{head}\r\n\r\n{content}"), head.len() + 4);
    let mut fields = [httparse::EMPTY_HEADER; 8];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(whole.as_bytes()).map_err(|error| error.to_string())?;
    let mut found = Content::of(response.code.unwrap_or_default(), response.headers, start)?;
    for length in start..=whole.len() {
        if let Some(end) = found.end(&whole.as_bytes()[..length])? {
            assert_eq!(length, end, "found late or early");
            return Ok(Some(end - start));
        }
    }
    Ok(None)
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked";

#[test]
fn a_length_ends_the_content() {
    assert_eq!(end_of("HTTP/1.1 200 OK\r\ncontent-length: 3", "abcdef"), Ok(Some(3)));
    assert_eq!(end_of("HTTP/1.1 200 OK\r\ncontent-length: 0", ""), Ok(Some(0)));
    assert_eq!(end_of("HTTP/1.1 200 OK\r\ncontent-length: 3", "ab"), Ok(None));
}

#[test]
fn the_last_chunk_and_its_trailers_end_the_content() {
    assert_eq!(end_of(CHUNKED, "3\r\nabc\r\n0\r\n\r\n"), Ok(Some(13)));
    assert_eq!(end_of(CHUNKED, "3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nsum: 7\r\n\r\nrest"), Ok(Some(31)));
    assert_eq!(end_of(CHUNKED, "0\r\n"), Ok(None));
}

#[test]
fn some_statuses_have_no_content_and_without_a_length_the_connection_ends_it() {
    assert_eq!(end_of("HTTP/1.1 204 No Content", ""), Ok(Some(0)));
    assert_eq!(end_of("HTTP/1.1 200 OK\r\nserver: x", "abc"), Ok(None));
    assert_eq!(Content::of(200, &[], 7).expect("it is valid"), Content::UntilClose);
}

#[test]
fn an_unclear_or_excessive_length_is_a_failure() {
    for (head, content, why) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: -1", "", "content-length \"-1\""),
        ("HTTP/1.1 200 OK\r\ncontent-length: 99999999", "", "has 100000044 bytes or more"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked", "", "transfer-encoding \"gzip, chunked\""),
        (CHUNKED, "x\r\n", "invalid chunk size"),
        (CHUNKED, "3\r\nabcd\r\n", "without a line break"),
        (CHUNKED, "ffffffffffffffff\r\n", "bytes or more"),
    ] {
        let error = end_of(head, content).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}
