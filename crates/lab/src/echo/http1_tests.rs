use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Starts a server that lives as long as the test's runtime.
async fn start(work: &Arc<Work>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    tokio::spawn(serve(listener, "s1".to_owned(), Arc::clone(work)));
    address
}

/// The answers to two requests on one connection, which closes after the second.
async fn answers(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request =
        |connection: &str| format!("POST / HTTP/1.1\r\nhost: a\r\n{connection}content-length: 5\r\n\r\nhello");
    let both = [request(""), request("connection: close\r\n")].concat();
    stream.write_all(both.as_bytes()).await.expect("it reads");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.expect("text");
    answers
}

#[tokio::test]
async fn what_is_sent_comes_back_with_the_servers_name_on_a_connection_that_stays_open() {
    let answers = answers(start(&Arc::new(Work::new(0, 0))).await).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    assert_eq!(answers.matches("x-echo-server: s1").count(), 2, "{answers}");
    assert_eq!(answers.matches("\r\n\r\nhello").count(), 2, "{answers}");
}

#[tokio::test]
async fn a_server_that_fails_answers_503_and_counts_its_requests() {
    let work = Arc::new(Work::new(0, 0));
    work.set_failure(14, 100);
    let answers = answers(start(&work).await).await;
    assert_eq!(answers.matches("HTTP/1.1 503").count(), 2, "{answers}");
    assert_eq!(work.calls(), 2);
}

#[test]
fn a_size_out_of_range_is_refused_by_the_name_of_its_field() {
    let of = |value: &'static str| {
        size_of_answer(&HeaderMap::from_iter([(
            RESPONSE_BYTES.parse().expect("a name"),
            HeaderValue::from_static(value),
        )]))
    };
    assert_eq!(size_of_answer(&HeaderMap::new()), Ok(None));
    assert_eq!(of("11"), Ok(Some(11)));
    for wrong in ["16777217", "-1", "many"] {
        let why = of(wrong).expect_err(wrong);
        assert!(why.contains("x-echo-response-bytes is") && why.contains("use 0 to 16777216"), "{why}");
    }
}
