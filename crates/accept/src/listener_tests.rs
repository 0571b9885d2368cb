use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
const PLACES: usize = 8;

/// Serves connections that echo each byte. A connection counts as settled, not silent, once it has sent a byte.
async fn start() -> SocketAddr {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = socket.local_addr().expect("an address");
    let mut listener = Listener::new("test", socket, RoomSize::of_strangers(PLACES));
    tokio::spawn(async move {
        loop {
            let Arrival { mut stream, mut place, .. } = listener.accept().await;
            tokio::spawn(async move {
                let standing = place.standing();
                let echo = async {
                    while let Ok(byte) = stream.read_u8().await {
                        standing.settle();
                        let _ = stream.write_u8(byte).await;
                    }
                };
                let _ = place.hold(echo).await;
            });
        }
    });
    address
}

async fn connect(address: SocketAddr, last: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, last], 0).into()).expect("a loopback address");
    socket.connect(address).await.expect("it listens")
}

async fn echo(stream: &mut TcpStream) -> bool {
    let exchange = async {
        stream.write_u8(7).await?;
        stream.read_u8().await
    };
    matches!(timeout(PATIENCE, exchange).await, Ok(Ok(7)))
}

#[tokio::test]
async fn silent_connections_from_anywhere_keep_nobody_out() {
    let address = start().await;
    let mut silent = Vec::new();
    for number in 0..100 {
        silent.push(connect(address, 1 + number % 4).await);
    }
    for last in [1, 9] {
        let mut stream = connect(address, last).await;
        for _ in 0..3 {
            assert!(echo(&mut stream).await, "127.0.0.{last}");
        }
    }
}

#[tokio::test]
async fn an_address_with_all_places_yields_one_and_gets_no_more() {
    let address = start().await;
    let mut held = Vec::new();
    for _ in 0..PLACES {
        let mut stream = connect(address, 1).await;
        assert!(echo(&mut stream).await);
        held.push(stream);
    }
    assert!(!echo(&mut connect(address, 1).await).await, "it holds the most");
    assert!(echo(&mut connect(address, 2).await).await);
    let mut alive = 0;
    for mut stream in held {
        alive += usize::from(echo(&mut stream).await);
    }
    assert_eq!(alive, PLACES - 1);
}
