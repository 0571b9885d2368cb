use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Starts a server that answers each request with the next of `answers`, and repeats the last answer for ever.
async fn admin(answers: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        for answer in answers.iter().chain(std::iter::repeat(answers.last().expect("an answer"))) {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let read = stream.read(&mut [0; 1024]).await.expect("a request");
            assert!(read > 0);
            stream.write_all(answer.as_bytes()).await.expect("it reads");
        }
    });
    address
}

fn options(admin: SocketAddr, timeout: Duration) -> Options {
    Options { admin, timeout }
}

const WAITING: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 27\r\n\r\nwaiting for a certificate.\n";

#[tokio::test]
async fn it_ends_once_the_proxy_is_ready() {
    let admin = admin(&[WAITING, "", WAITING, "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nready\n"]).await;
    until_ready(&options(admin, Duration::from_secs(20))).await.expect("it is ready");
}

#[tokio::test]
async fn it_fails_with_the_proxys_reason() {
    let admin = admin(&[WAITING]).await;
    let error = until_ready(&options(admin, Duration::from_millis(100))).await.expect_err("it is not ready");
    let expected = format!("the proxy at {admin} is not ready after 100ms: waiting for a certificate.");
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn it_fails_without_a_proxy() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let admin = listener.local_addr().expect("an address");
    drop(listener);
    let error = until_ready(&options(admin, Duration::ZERO)).await.expect_err("nothing listens");
    assert!(error.to_string().contains("Connection refused"), "{error}");
}

#[test]
fn a_wrong_duration_is_refused() {
    let read = |argument: &str| Options::read(["leno-proxy", argument].map(OsString::from).into_iter());
    assert_eq!(read("--timeout=2m").expect("it is right").timeout, Duration::from_secs(120));
    assert!(matches!(read("--timeout=soon"), Err(Exit::Usage(line)) if line.contains("write a duration")));
}
