//! Opens TCP connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::{TcpSocket, TcpStream};

/// Maximum number of connections from one loopback address to one address. By default, Linux has 28,232 local ports for
/// such connections, and the ports of closed connections stay in use for up to a minute.
const CONNECTIONS_OF_AN_ADDRESS: usize = 10_000;

/// Opens the connection of the load's client with this index. If `address` is an IPv4 loopback address, clients beyond
/// the first 10,000 connect from further loopback addresses: 127.0.0.2 and so on.
///
/// # Errors
/// The reason, in words.
pub(super) async fn connect(address: SocketAddr, client: usize) -> Result<TcpStream, String> {
    let connecting = async {
        let stream = match source(address, client) {
            Some(source) => {
                let socket = TcpSocket::new_v4()?;
                socket.bind(SocketAddr::new(source, 0))?;
                socket.connect(address).await?
            }
            None => TcpStream::connect(address).await?,
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    connecting.await.map_err(|error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AddrNotAvailable => {
            format!("{error}: no local port is free; use fewer connections, or widen net.ipv4.ip_local_port_range")
        }
        _ => error.to_string(),
    })
}

/// The address from which a client connects; `None` if the kernel chooses it.
fn source(address: SocketAddr, client: usize) -> Option<IpAddr> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    let number = u8::try_from(client / CONNECTIONS_OF_AN_ADDRESS).ok()?.checked_add(1)?;
    (ip.is_loopback() && number > 1).then_some(IpAddr::V4(Ipv4Addr::new(127, 0, 0, number)))
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
