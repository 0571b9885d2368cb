use super::*;

const ANSWER: &str = "HTTP/1.1 200 OK\r\nX-Echo-Server: s1\r\ncontent-length: 3\r\n\r\nabc";

#[test]
fn an_answer_names_its_server_and_says_how_long_it_is() {
    let head = head(ANSWER.as_bytes(), false).expect("it is valid").expect("it is whole");
    let server = Ok(Bytes::from_static(b"s1"));
    assert_eq!((head.answer, head.content, head.closes), (server, Content::Until(ANSWER.len()), false));
}

#[test]
fn half_a_head_is_waited_for() {
    assert!(head(&ANSWER.as_bytes()[..20], false).expect("valid so far").is_none());
}

#[test]
fn other_answers_are_failures_that_say_why() {
    for (change, why) in [
        (("200 OK", "503 Service Unavailable"), "HTTP status 503"),
        (("200 OK", "201 Created"), "HTTP status 201"),
        (("X-Echo-Server", "server"), "no x-echo-server"),
        (("content-length: 3", "content-length: 99999999"), "bytes or more"),
    ] {
        let error = failure_of(&ANSWER.replace(change.0, change.1), false);
        assert!(error.why.contains(why), "{error:?}");
    }
}

/// The failure that this header section means.
fn failure_of(text: &str, is_nameless: bool) -> Failure {
    match head(text.as_bytes(), is_nameless) {
        Ok(head) => head.expect("it is whole").answer.expect_err("a failure"),
        Err(failure) => failure,
    }
}

#[test]
fn a_connection_that_the_server_closes_is_not_kept() {
    for text in [
        ANSWER.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
        ANSWER.replace("HTTP/1.1", "HTTP/1.0"),
        ANSWER.replace("content-length", "x-length"),
        ANSWER.replace("200 OK", "103 Early Hints"),
    ] {
        assert!(head(text.as_bytes(), false).expect("it is valid").expect("it is whole").closes, "{text}");
    }
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

#[test]
fn any_success_of_a_server_without_a_name_counts() {
    for status in ["200 OK", "201 Created", "204 No Content", "299 Odd"] {
        let text = ANSWER.replace("200 OK", status).replace("X-Echo-Server", "x-other");
        let head = head(text.as_bytes(), true).expect("it is a success").expect("it is whole");
        assert_eq!(head.answer, Ok(Bytes::from_static(NAMELESS.as_bytes())));
    }
    for status in ["302 Found", "404 Not Found", "503 Service Unavailable"] {
        let failure = failure_of(&ANSWER.replace("200 OK", status), true);
        assert!(matches!(failure.class, FailureClass::Http(_)), "{failure:?}");
    }
}

#[test]
fn a_get_has_the_path_with_its_query_and_no_other_line() {
    let client = Client { address: "127.0.0.1:80".parse().expect("an address"), authority: "hello.a:80".to_owned() };
    let bytes = get(&client, "/hello?x=1").expect("a path");
    assert_eq!(&bytes[..], b"GET /hello?x=1 HTTP/1.1\r\nhost: hello.a:80\r\nuser-agent: leno-lab\r\n\r\n");
    assert!(get(&client, "/x HTTP/1.1\r\ny: z").is_err());
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_not_used_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    let (closed, mut was_closed) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await.expect("a request");
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("a client");
            drop(stream);
            let _ = closed.send(());
        }
    });
    let client = Client { address, authority: "hello".to_owned() };
    let get = Exchange::Http1Get("/".to_owned());
    let mut http1 = Http1::new(&client, 0, &get, &Traffic::default()).expect("a path");
    for _ in 0..3 {
        assert_eq!(http1.exchange().await, Ok(Bytes::from_static(b"server")));
        was_closed.recv().await.expect("the server runs");
        let closing = || http1.stream.as_ref().is_some_and(is_open);
        while closing() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn an_answer_with_an_error_status_is_read_whole_and_its_connection_is_kept() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    // The server accepts a single connection.
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        drop(listener);
        for answer in ["HTTP/1.1 503 Unavailable\r\ncontent-length: 4\r\n\r\nfail", ANSWER] {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await.expect("a request");
            stream.write_all(answer.as_bytes()).await.expect("a client");
        }
    });
    let client = Client { address, authority: "hello".to_owned() };
    let mut http1 = Http1::new(&client, 0, &Exchange::Http1, &Traffic::default()).expect("a request");
    let failure = http1.exchange().await.expect_err("503");
    assert_eq!(failure.class, FailureClass::Http(503));
    assert_eq!(http1.exchange().await, Ok(Bytes::from_static(b"s1")));
}
