use tokio::net::TcpListener;

use super::*;

#[test]
fn only_loopback_addresses_get_further_sources_and_only_for_many_clients() {
    let loopback: SocketAddr = "127.0.0.1:80".parse().expect("an address");
    let service: SocketAddr = "10.96.0.50:80".parse().expect("an address");
    assert_eq!(source(loopback, 9_999), None);
    assert_eq!(source(loopback, 10_000), Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))));
    assert_eq!(source(loopback, 20_000), Some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3))));
    assert_eq!(source(service, 10_000), None);
    assert_eq!(source(loopback, usize::MAX), None);
}

#[tokio::test]
async fn the_server_sees_the_further_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound listener");
    let _stream = connect(address, 10_000).await.expect("it listens");
    let (_, peer) = listener.accept().await.expect("a connection");
    assert_eq!(peer.ip(), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)));
}
