use super::*;

const ANSWER: &str = "HTTP/1.1 200 OK\r\nX-Echo-Server: s1\r\ncontent-length: 3\r\n\r\nabc";

#[test]
fn an_answer_names_its_server_and_says_how_long_it_is() {
    let head = head(ANSWER.as_bytes()).expect("it is valid").expect("it is whole");
    assert_eq!((&head.server[..], head.length, head.closes), (&b"s1"[..], ANSWER.len(), false));
}

#[test]
fn half_a_head_is_waited_for() {
    assert!(head(&ANSWER.as_bytes()[..20]).expect("valid so far").is_none());
}

#[test]
fn other_answers_are_failures_that_say_why() {
    for (change, why) in [
        (("200 OK", "503 Service Unavailable"), "HTTP status 503"),
        (("content-length: 3", "transfer-encoding: chunked"), "no content-length"),
        (("X-Echo-Server", "server"), "no x-echo-server"),
        (("content-length: 3", "content-length: 99999999"), "has 99999999 bytes"),
    ] {
        let text = ANSWER.replace(change.0, change.1);
        let error = head(text.as_bytes()).map(|_| ()).expect_err("it is a failure");
        assert!(error.why.contains(why), "{error:?}");
    }
}

#[test]
fn a_connection_that_the_server_closes_is_not_kept() {
    let text = ANSWER.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    assert!(head(text.as_bytes()).expect("it is valid").expect("it is whole").closes);
}

#[test]
fn a_request_without_content_is_a_get_and_another_size_of_the_answer_is_a_field() {
    let client = Client { address: "127.0.0.1:80".parse().expect("an address"), authority: "hello".to_owned() };
    let text = |traffic| String::from_utf8(request(&client, &traffic).to_vec()).expect("text");
    let hello = text(Traffic { request_bytes: 0, response_bytes: 11, ..Traffic::default() });
    assert!(hello.starts_with("GET /echo HTTP/1.1\r\nhost: hello\r\n"), "{hello}");
    assert!(hello.ends_with("x-echo-response-bytes: 11\r\n\r\n"), "{hello}");
    let echo = text(Traffic { request_bytes: 3, response_bytes: 3, ..Traffic::default() });
    assert!(echo.starts_with("POST ") && echo.ends_with("content-length: 3\r\n\r\nxxx"), "{echo}");
    assert!(!echo.contains("x-echo-response-bytes"), "{echo}");
}
