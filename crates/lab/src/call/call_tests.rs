use std::future::pending;

use super::count::Count;
use super::*;
use crate::echo::tests::start_server;

fn options(to: &str) -> Options {
    Options { to: to.to_owned(), rate: 100, report_s: 1, reports: Some(1) }
}

#[tokio::test]
async fn calls_are_made_at_the_rate_and_the_line_names_the_server() {
    let address = start_server("s1", 0).await;
    let mut output = Vec::new();
    call(&options(&address.to_string()), pending(), &mut output).await.expect("it calls");
    let line = String::from_utf8(output).expect("text");
    let calls: u32 =
        line.strip_prefix("1 s: ").and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number");
    // The range is wide for busy machines. There, the client skips calls that it could not send in time. If it prints
    // the line late, the line includes calls of the next second.
    assert!((10..200).contains(&calls), "{line}");
    assert!(line.contains(" calls, 0 failed; p50 ") && line.ends_with("; s1 100.0 %\n"), "{line}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_called_until_it_is() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let mut output = Vec::new();
    call(&options(&address.to_string()), pending(), &mut output).await.expect("failed calls are counted");
    let line = String::from_utf8(output).expect("text");
    assert!(line.contains(" failed; the last with Unavailable: ") && !line.contains(", 0 failed"), "{line}");
    assert!(line.contains(": Connection refused "), "{line}");
}

#[test]
fn what_failed_before_the_first_answer_has_a_line_of_its_own() {
    let mut count = Count::default();
    assert_eq!(count.line_before_the_first_answer(), None);
    for _ in 0..3 {
        count.note(Outcome::Failed("Unavailable: no server".to_owned()));
    }
    let line = count.line_before_the_first_answer();
    let expected = "first answer after 3 failed calls; the last with Unavailable: no server";
    assert_eq!(line.as_deref(), Some(expected));
}

#[tokio::test]
async fn counting_begins_with_the_first_answer() {
    let address = start_server("s1", 0).await;
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let front = proxy.local_addr().expect("bound");
    tokio::spawn(async move {
        // This fake proxy closes the first two connections without an answer.
        for _ in 0..2 {
            drop(proxy.accept().await);
        }
        while let Ok((mut client, _)) = proxy.accept().await {
            let mut server = tokio::net::TcpStream::connect(address).await.expect("it runs");
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let mut output = Vec::new();
    call(&options(&front.to_string()), pending(), &mut output).await.expect("it calls");
    let lines = String::from_utf8(output).expect("text");
    let (first, second) = lines.split_once('\n').expect("two lines");
    assert!(first.starts_with("first answer after "), "{lines}");
    assert!(second.contains(" calls, 0 failed; p50 "), "{lines}");
}

#[tokio::test]
async fn it_ends_when_it_is_told_to() {
    let mut output = Vec::new();
    let options = Options { reports: None, ..options("127.0.0.1:1") };
    call(&options, async {}, &mut output).await.expect("it ends");
    assert!(output.is_empty());
    let error = call(&Options { to: "no address".to_owned(), ..options }, pending(), &mut output).await;
    assert!(error.is_err_and(|error| error.to_string().ends_with("write a host and a port, as echo:50051")));
}

#[test]
fn a_line_has_the_share_of_each_server_and_why_calls_failed() {
    let mut count = Count::default();
    for server in ["echo-1", "echo-1", "echo-1", "echo-slow"] {
        count.note(Outcome::Answered { server: server.to_owned(), latency: Duration::from_millis(2) });
    }
    count.note(Outcome::Failed("Unavailable: the Service's\n\"server\"".to_owned()));
    assert_eq!(
        count.line(Duration::from_secs(10)),
        "10 s: 5 calls, 1 failed; the last with Unavailable: the Service's\\n\"server\"; p50 2.0 ms, p99 2.0 ms; echo-1 75.0 %, echo-slow 25.0 %"
    );
    assert_eq!(Count::default().line(Duration::from_secs(1)), "1 s: 0 calls, 0 failed");
}
