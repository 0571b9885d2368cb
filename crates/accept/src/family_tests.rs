use tokio::net::TcpStream;

use super::*;
use crate::listen;

#[tokio::test]
async fn the_unspecified_ipv6_address_takes_connections_of_both_families() {
    let socket = listen(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0)).expect("a port");
    let port = socket.local_addr().expect("an address").port();
    let v4 = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
    assert!(v4.is_ok(), "{v4:?}");
    if has_ipv6() {
        let v6 = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await;
        assert!(v6.is_ok(), "{v6:?}");
    }
}

#[test]
fn only_the_unspecified_ipv6_address_changes_and_only_without_ipv6() {
    for address in ["0.0.0.0:1", "127.0.0.1:1", "[::1]:1"] {
        let address = address.parse().expect("an address");
        assert_eq!(usable(address), address);
    }
    let any = usable("[::]:1".parse().expect("an address"));
    assert_eq!(any.is_ipv6(), has_ipv6());
    assert!(any.ip().is_unspecified() && any.port() == 1);
}
