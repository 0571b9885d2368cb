//! Listen: the sockets at which connections arrive, one for each worker at each address.
//!
//! This process or its supervisor binds a socket before the worker starts. The socket listens once the worker runs;
//! until then the kernel refuses connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use leno_accept::{BACKLOG, has_ipv6, stream_socket, usable};
use leno_relay::Door;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Poll, Token};
use socket2::Socket;

use super::accept::keepalive;

/// Maximum number of addresses that one worker listens on.
pub const MAX_LISTENERS: usize = 32;

/// A socket that is bound.
#[derive(Debug)]
pub struct Bound {
    /// The kind of connections that the socket accepts: outbound, inbound, or tunnels.
    pub door: Door,
    /// The address that the socket is bound to.
    pub address: SocketAddr,
    /// The socket itself. It has SO_REUSEPORT, so that all workers share the port.
    pub socket: Socket,
}

impl Bound {
    /// Wraps a bound socket, with its address.
    ///
    /// # Errors
    /// The socket has no IP address.
    pub fn new(door: Door, socket: Socket) -> io::Result<Self> {
        let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self { door, address, socket })
    }
}

/// Error: the proxy cannot listen at an address.
#[derive(Debug, thiserror::Error)]
#[error("--{} {address}: {source}; choose an address of this machine that is free", door.name())]
pub struct BindError {
    /// The kind of connections that the proxy cannot accept at this address.
    pub door: Door,
    /// The address.
    pub address: SocketAddr,
    /// Why the proxy cannot listen at this address.
    pub source: io::Error,
}

/// Binds the sockets of each worker, at no more than [`MAX_LISTENERS`] addresses. Port 0 selects a free port, the same
/// for all workers. Leaves out `[::1]` if the system has no IPv6, because no connection could arrive there. Does so
/// only if the same door (outbound, inbound or tunnel) also has an IPv4 address.
///
/// # Errors
/// An address does not belong to this machine, or another program listens there.
pub fn bind_workers(wanted: &[(Door, SocketAddr)], workers: usize) -> Result<Vec<Vec<Bound>>, BindError> {
    let mut wanted = usable_of(wanted);
    let mut bound = Vec::with_capacity(workers);
    for worker in 0..workers {
        let mut sockets = Vec::with_capacity(wanted.len());
        for (door, address) in &mut wanted {
            let failed = |source| BindError { door: *door, address: *address, source };
            // The first worker checks that no other process listens at its ports. The other workers share the ports.
            let free = if worker == 0 { check_free(*address) } else { Ok(()) };
            let socket = free.and_then(|()| bind(*address));
            let bound = socket.and_then(|socket| Bound::new(*door, socket)).map_err(failed)?;
            *address = bound.address;
            sockets.push(bound);
        }
        bound.push(sockets);
    }
    Ok(bound)
}

fn usable_of(wanted: &[(Door, SocketAddr)]) -> Vec<(Door, SocketAddr)> {
    let has_ipv6 = has_ipv6();
    let has_other = |door: Door| wanted.iter().any(|(other, address)| *other == door && address.is_ipv4());
    let is_usable = |(door, address): &&(Door, SocketAddr)| {
        has_ipv6 || address.is_ipv4() || !address.ip().is_loopback() || !has_other(*door)
    };
    wanted.iter().filter(is_usable).copied().collect()
}

/// Checks that no other socket listens at an address. Without this check, SO_REUSEPORT would let two doors of the
/// proxy, or two processes, share the port by mistake.
fn check_free(address: SocketAddr) -> io::Result<()> {
    let address = usable(address);
    stream_socket(address)?.bind(&address.into())
}

/// Binds a socket. `[::]` accepts IPv4 and IPv6, or IPv4 alone if the system has no IPv6.
fn bind(address: SocketAddr) -> io::Result<Socket> {
    let address = usable(address);
    let socket = stream_socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A socket that listens.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) door: Door,
    pub(super) address: SocketAddr,
    socket: TcpListener,
}

impl Listener {
    /// Makes a bound socket listen. The kernel probes clients that are silent for `silence` (TCP keepalive). If
    /// `is_first` (for the first worker), checks that no other door or program has begun to listen at the address since
    /// the socket was bound.
    ///
    /// # Errors
    /// Another door or program has begun to listen at the address.
    pub(super) fn open(bound: Bound, is_first: bool, silence: Duration) -> Result<Self, BindError> {
        let Bound { door, address, socket } = bound;
        let listen = || {
            // A socket from a supervisor already listens if an earlier proxy process has used it.
            if is_first && !socket.is_listener()? {
                check_free(address)?;
            }
            socket.set_nonblocking(true)?;
            // Accepted sockets inherit the keepalive setting.
            socket.set_tcp_keepalive(&keepalive(silence))?;
            socket.listen(BACKLOG)
        };
        listen().map_err(|source| BindError { door, address, source })?;
        Ok(Self { door, address, socket: TcpListener::from_std(socket.into()) })
    }

    pub(super) fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.socket.accept()
    }

    pub(super) fn register(&mut self, poll: &Poll, token: Token) -> io::Result<()> {
        poll.registry().register(&mut self.socket, token, Interest::READABLE)
    }

    pub(super) fn deregister(&mut self, poll: &Poll) {
        let _ = poll.registry().deregister(&mut self.socket);
    }
}
