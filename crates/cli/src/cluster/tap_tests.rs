use std::net::Ipv4Addr;

use clap::Parser;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    tap: Options,
}

#[test]
fn without_a_running_proxy_the_error_says_so() {
    let Cli { tap } = Cli::parse_from(["leno"]);
    let none = Proxies::on_this_machine(Vec::new());
    let error = block_on(tap.read(&none, &Shown::default())).expect("a runtime").expect_err("nothing to watch");
    assert_eq!(error.what, "no Pod that is selected has a running proxy");
}

/// Opens a tap at a proxy that sends `answer` and then closes the connection.
fn tapped(answer: &str) -> Ended {
    let Cli { tap } = Cli::parse_from(["leno"]);
    let shown = Shown::default();
    let conversation = async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let proxy = ProxyAt::address(listener.local_addr().expect("its address"));
        let proxies = Proxies::on_this_machine(vec![proxy.clone()]);
        let json = r#"{"rate":1}"#;
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let (mut request, mut part) = (Vec::new(), [0; 1024]);
            // Read all of the request: otherwise, closing the connection would reset it.
            while !request.ends_with(json.as_bytes()) {
                let count = stream.read(&mut part).await.expect("a request");
                assert_ne!(count, 0, "the request is complete");
                request.extend_from_slice(&part[..count]);
            }
            stream.write_all(answer.as_bytes()).await.expect("the client reads");
        };
        tokio::join!(tap.tap(&proxies, proxy, json, &shown), serve).0
    };
    block_on(conversation).expect("a runtime")
}

#[test]
fn a_tap_that_breaks_off_is_no_refusal() {
    // There were no calls, and a proxy that shuts down sends no last chunk.
    let cut = tapped("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\n\r\n");
    assert_eq!((cut.is_error, cut.has_begun), (true, true));
    let refused = tapped("HTTP/1.1 403 Forbidden\r\ncontent-length: 3\r\n\r\nno\n");
    assert_eq!((refused.is_error, refused.has_begun), (true, false));
}
