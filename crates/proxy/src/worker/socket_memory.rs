//! Socket memory: how much memory the kernel holds for a connection. cgroup v2 counts this memory against the
//! container's `memory.max`.
//!
//! The kernel itself answers, over a netlink socket (sock_diag(7)), because no bound is both safe and close. Measured
//! on Linux 6.18, for a socket that is not read or whose peer does not read:
//!
//! - Receiving: a queue of 75 KB of 1-byte segments takes 1.6 MB, and a queue of 117 KB takes 5.3 MB. So the payload
//!   (FIONREAD) says too little. SO_RCVBUF bounds the queue, but says too much: it grows up to `net.ipv4.tcp_rmem`
//!   (33.5 MB) while the socket is read, and never shrinks.
//! - Sending: 160 to 200 KB with our TCP_NOTSENT_LOWAT of 128 KiB, because the last write is accepted as a whole. 3.5 MB
//!   if the peer had been fast and then dropped what we sent. SO_SNDBUF is 4.2 MB in both cases.

use std::io;
use std::net::{IpAddr, SocketAddr};

use mio::net::TcpStream;
use rustix::fd::OwnedFd;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send, socket_with,
};
use socket2::SockRef;

use super::wire::KERNEL_UNSENT_MAX_BYTES;

/// Size of a request: a netlink header and a `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 72;
/// The type of a request and of its answer: SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// NLM_F_REQUEST.
const REQUEST: u16 = 1;
const TCP: u8 = 6;
/// The attribute of an answer with the memory of the socket: INET_DIAG_SKMEMINFO.
const MEMORY: u16 = 7;
/// Position of an answer's first attribute, after a netlink header and a `struct inet_diag_msg`.
const ATTRIBUTES_AT: usize = 88;
/// Size of an attribute's header: length and type.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// An answer has about 150 bytes.
const ANSWER_MAX_BYTES: usize = 1_024;

/// Asks the kernel for the memory of sockets.
#[derive(Debug, Default)]
pub(super) struct SocketMemory {
    kernel: Kernel,
    /// Sequence number of the latest request.
    sequence: u32,
}

#[derive(Debug, Default)]
enum Kernel {
    /// No socket's memory was asked for yet. Most proxies never ask.
    #[default]
    Unasked,
    Answers(OwnedFd),
    /// The kernel has not answered the first question: it has no sock_diag, or a sandbox forbids it.
    Silent,
}

impl SocketMemory {
    /// Returns how many bytes the kernel holds for a socket. `is_blocked` says that the socket accepts no bytes; only
    /// an estimate uses it.
    pub(super) fn bytes(&mut self, socket: &TcpStream, is_blocked: bool) -> usize {
        // A socket that has been reset has no peer, and no memory worth counting.
        let (Ok(local), Ok(peer)) = (socket.local_addr(), socket.peer_addr()) else { return 0 };
        let is_first = matches!(self.kernel, Kernel::Unasked);
        if is_first {
            self.kernel = open().map_or(Kernel::Silent, Kernel::Answers);
        }
        let Kernel::Answers(netlink) = &self.kernel else { return estimate(socket, is_blocked) };
        self.sequence = self.sequence.wrapping_add(1);
        if let Ok(Some(bytes)) = ask(netlink, self.sequence, local, peer) {
            return bytes;
        }
        // Without the module `tcp_diag`, the kernel would try to load it at each question, and we would wait for that.
        if is_first {
            self.kernel = Kernel::Silent;
        }
        estimate(socket, is_blocked)
    }
}

fn open() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let netlink = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    bind(&netlink, &kernel)?;
    connect(&netlink, &kernel)?;
    Ok(netlink)
}

/// Asks for the memory of one socket. The kernel answers before it returns from `send`.
///
/// # Errors
/// If there is no answer.
fn ask(netlink: &OwnedFd, sequence: u32, local: SocketAddr, peer: SocketAddr) -> rustix::io::Result<Option<usize>> {
    send(netlink, &request(sequence, local, peer), SendFlags::empty())?;
    let mut answer = [0; ANSWER_MAX_BYTES];
    loop {
        let (_, length) = recv(netlink, answer.as_mut_slice(), RecvFlags::empty())?;
        let answer = answer.get(..length).unwrap_or_default();
        // An earlier answer may still be there if an earlier request has failed.
        if field(answer, 8).map(u32::from_ne_bytes) == Some(sequence) {
            return Ok(memory_in(answer));
        }
    }
}

/// Makes a request for the memory of the socket with these addresses.
fn request(sequence: u32, local: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    // AF_INET and AF_INET6.
    let family = if local.is_ipv4() { 2 } else { 10 };
    let extensions = 1 << (MEMORY - 1);
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The port of the kernel.
    bytes.extend([0; 4]);
    bytes.extend([family, TCP, extensions, 0]);
    // Any state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(peer.port().to_be_bytes());
    bytes.extend(address(local));
    bytes.extend(address(peer));
    // A connection from a link-local address belongs to the address's interface.
    let interface = if let SocketAddr::V6(local) = local { local.scope_id() } else { 0 };
    bytes.extend(interface.to_ne_bytes());
    // INET_DIAG_NOCOOKIE.
    bytes.extend([0xff; 8]);
    bytes
}

/// Returns an address in 16 bytes. IPv4 takes the first four.
fn address(address: SocketAddr) -> [u8; 16] {
    match address.ip() {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes.iter_mut().zip(ip.octets()).for_each(|(to, from)| *to = from);
            bytes
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Returns the memory in an answer: what both queues of the socket take with the kernel's overhead, and what the kernel
/// has reserved beyond that. `None` if the answer is an error: the socket has closed, or the kernel cannot look up TCP
/// sockets.
fn memory_in(answer: &[u8]) -> Option<usize> {
    if u16::from_ne_bytes(field(answer, 4)?) != BY_FAMILY {
        return None;
    }
    let mut attributes = answer.get(ATTRIBUTES_AT..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(field(attributes, 0)?));
        if u16::from_ne_bytes(field(attributes, 2)?) == MEMORY {
            let values = attributes.get(ATTRIBUTE_HEADER_BYTES..length)?;
            // See sock_diag(7): SK_MEMINFO_RMEM_ALLOC, SK_MEMINFO_FWD_ALLOC, SK_MEMINFO_WMEM_QUEUED and
            // SK_MEMINFO_BACKLOG.
            let [received, reserved, queued, backlog] =
                [0, 4, 5, 7].map(|index| field(values, 4 * index).map_or(0, u32::from_ne_bytes) as usize);
            return Some(received + reserved + queued + backlog);
        }
        let next = length.max(ATTRIBUTE_HEADER_BYTES).next_multiple_of(4);
        attributes = attributes.get(next..)?;
    }
}

/// Estimates the memory of a socket if the kernel does not tell it. Too low for a peer that sends very small segments.
fn estimate(socket: &TcpStream, is_blocked: bool) -> usize {
    let received = || -> io::Result<usize> {
        let payload = usize::try_from(rustix::io::ioctl_fionread(socket)?).unwrap_or(usize::MAX);
        Ok(payload.saturating_mul(2).min(SockRef::from(socket).recv_buffer_size()?))
    };
    let queued = if is_blocked { 2 * KERNEL_UNSENT_MAX_BYTES as usize } else { 0 };
    received().unwrap_or_default() + queued
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
#[path = "socket_memory_tests.rs"]
pub(super) mod tests;
