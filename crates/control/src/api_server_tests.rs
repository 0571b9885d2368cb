use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::runtime::watcher::Event;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use super::*;

/// The connection is lost without a reset, as if the API server's node had failed.
#[tokio::test(start_paused = true)]
async fn a_list_without_an_answer_fails_and_is_repeated() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let api_server = ApiServer::new(Config::new(url.parse().expect("a URL"))).expect("a client");
    let mut watch =
        api_server.watch(Api::<Secret>::namespaced(api_server.client(), "leno"), watcher::Config::default());
    let mut lost = Vec::new();
    for _ in 0..2 {
        assert!(matches!(watch.next().await, Ok(Event::Init)));
        let begun = Instant::now();
        let listing = timeout(READ_MAX * 2, watch.next());
        let (listed, connection) = tokio::join!(listing, listener.accept());
        lost.push(connection.expect("a connection"));
        assert!(listed.expect("the list fails in time").is_err());
        assert!(begun.elapsed() <= READ_MAX + Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_fails_sooner() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let api_server = ApiServer::new(Config::new(url.parse().expect("a URL"))).expect("a client");
    let secrets = Api::<Secret>::namespaced(api_server.client(), "leno");
    let begun = Instant::now();
    let (read, connection) = tokio::join!(timeout(READ_MAX, secrets.get("any")), listener.accept());
    let error = read.expect("the read fails in time").expect_err("no answer");
    assert!(error.to_string().contains("the API server did not answer within 65 s"), "{error}");
    let params = DeleteParams::default();
    let delete = timeout(READ_MAX, secrets.delete("any", &params));
    let (write, _other) = tokio::join!(delete, listener.accept());
    assert!(write.expect("the write fails in time").is_err());
    assert!(begun.elapsed() <= ANSWER_MAX * 2 + Duration::from_secs(2), "{:?}", begun.elapsed());
    drop(connection);
}

#[tokio::test]
async fn a_failure_of_the_api_server_is_seen_at_once() {
    const AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.expect("a connection");
            let length = connection.read(&mut [0; 4_096]).await.expect("it is open");
            assert!(length > 0, "the head of a request");
            connection.write_all(AWAY).await.expect("it is open");
        }
    });
    let api_server = ApiServer::new(Config::new(url.parse().expect("a URL"))).expect("a client");
    let secrets = Api::<Secret>::namespaced(api_server.client(), "leno");
    let answer = timeout(Duration::from_secs(10), secrets.get("any")).await.expect("kube does not repeat it meanwhile");
    assert!(matches!(&answer, Err(kube::Error::Api(status)) if status.code == 503), "{answer:?}");
}
