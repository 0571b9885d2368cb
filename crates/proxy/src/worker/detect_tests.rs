use super::*;

#[test]
fn the_first_bytes_tell_http1_from_tls_from_the_rest() {
    assert_eq!(detect(b"GET / HTTP/1.1\r\n"), Spoken::Http1);
    assert_eq!(detect(b"OPTIONS * HTTP/1.0\r\n"), Spoken::Http1);
    assert_eq!(detect(b"GET /a/very/long/target/whose/end/has/not/come"), Spoken::Http1);
    assert_eq!(detect(&[22, 3, 1, 2, 0, 1]), Spoken::Tls);
    for other in
        [&b"SSH-2.0-OpenSSH\r\n"[..], b"GET", b" GET /", b"", &[0, 0, 0, 4], b"INVALID CONNECTION PREFACE\r\n\r\n"]
    {
        assert_eq!(detect(other), Spoken::Unknown, "{other:?}");
    }
}

#[test]
fn the_http1_answer_has_as_much_content_as_it_says() {
    let answer = std::str::from_utf8(Spoken::Http1.farewell()).expect("it is HTTP/1");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it is HTTP/1");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("it is HTTP/1");
    assert_eq!(length.parse::<usize>().expect("a number"), body.len());
}
