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
    ] {
        let text = ANSWER.replace(change.0, change.1);
        let error = head(text.as_bytes()).map(|_| ()).expect_err("it is a failure");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_connection_that_the_server_closes_is_not_kept() {
    let text = ANSWER.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    assert!(head(text.as_bytes()).expect("it is valid").expect("it is whole").closes);
}
