//! Addresses and sockets to listen on: IPv4 and IPv6, or IPv4 alone if the system has no IPv6.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

/// Returns the address to listen on: `[::]` becomes `0.0.0.0` on a system without IPv6.
pub fn usable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unspecified() && !has_ipv6() => {
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), v6.port())
        }
        _ => address,
    }
}

/// Returns whether a process can listen on IPv6. The kernel may lack IPv6, or have it disabled
/// (net.ipv6.conf.*.disable_ipv6).
pub fn has_ipv6() -> bool {
    let any_port = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0);
    stream_socket(any_port).and_then(|socket| socket.bind(&any_port.into())).is_ok()
}

/// Creates a TCP socket for listening. Connections that an earlier process left behind do not block the port. `[::]`
/// accepts IPv4 connections too, regardless of net.ipv6.bindv6only.
///
/// # Errors
/// If the kernel cannot create a socket of this family.
pub fn stream_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    Ok(socket)
}

#[cfg(test)]
#[path = "family_tests.rs"]
mod tests;
