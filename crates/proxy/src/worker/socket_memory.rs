//! Socket memory: the memory that the kernel holds for a connection. cgroup v2 counts this memory against the
//! container's `memory.max`.
//!
//! The kernel reports this memory by the socket option SO_MEMINFO. Other values are no substitute, because none of them
//! is both a safe and a close bound. Measured on Linux 6.18, for a socket that is not read or whose peer does not read:
//!
//! - Receiving: a queue of 75 KB of 1-byte segments takes 1.6 MB, and a queue of 117 KB takes 5.3 MB. So the payload
//!   (FIONREAD) is too low. SO_RCVBUF bounds the queue, but is too high: it grows up to `net.ipv4.tcp_rmem` (33.5 MB)
//!   while the socket is read, and never shrinks.
//! - Sending: the queue takes 160 to 200 KB with our TCP_NOTSENT_LOWAT of 128 KiB, because the kernel accepts the last
//!   write as a whole. The queue takes 3.5 MB if the peer had been fast and then dropped what we sent. SO_SNDBUF is 4.2
//!   MB in both cases.

use std::io;
use std::os::fd::AsRawFd;

use mio::net::TcpStream;
use socket2::SockRef;

use super::wire::KERNEL_UNSENT_MAX_BYTES;

/// Number of values of SO_MEMINFO.
const VALUES: usize = 9;
/// Positions of the values to add: the memory of both queues of the socket, including the kernel's overhead, and the
/// memory that the kernel has reserved in advance. See sock_diag(7): SK_MEMINFO_RMEM_ALLOC, SK_MEMINFO_FWD_ALLOC,
/// SK_MEMINFO_WMEM_QUEUED and SK_MEMINFO_BACKLOG.
const MEMORY: [usize; 4] = [0, 4, WRITE_QUEUE, 7];
/// Position of SK_MEMINFO_WMEM_QUEUED: the memory of the bytes that the peer has not acknowledged.
const WRITE_QUEUE: usize = 5;

/// Returns the number of bytes that the kernel holds for a socket. If the kernel does not report the number, returns an
/// estimate. Only the estimate uses `is_blocked`, which is true if the socket accepts no bytes.
pub(super) fn socket_memory(socket: &TcpStream, is_blocked: bool) -> usize {
    let Some(values) = ask(socket) else { return estimate(socket, is_blocked) };
    MEMORY.iter().filter_map(|place| values.get(*place)).map(|bytes| *bytes as usize).sum()
}

/// Returns whether the kernel holds bytes that the peer has not acknowledged. Also returns `true` if the kernel does not
/// report its memory.
pub(super) fn has_unacknowledged(socket: &TcpStream) -> bool {
    ask(socket).is_none_or(|values| values.get(WRITE_QUEUE) != Some(&0))
}

/// Asks the kernel for the values of SO_MEMINFO; `None` before Linux 4.12, and where a sandbox forbids it.
#[allow(unsafe_code)]
fn ask(socket: &TcpStream) -> Option<[u32; VALUES]> {
    let mut values = [0; VALUES];
    let mut length = size_of_val(&values) as libc::socklen_t;
    let (to, fd) = (values.as_mut_ptr().cast(), socket.as_raw_fd());
    // SAFETY: the descriptor is open while `socket` lives. getsockopt(2) writes at most `length` bytes to `values`,
    // which may have any content, and their number to `length`. It keeps neither pointer.
    let status = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, to, &raw mut length) };
    (status == 0).then_some(values)
}

/// Estimates the memory of a socket if the kernel does not report it. The estimate is too low for a peer that sends
/// very small segments.
fn estimate(socket: &TcpStream, is_blocked: bool) -> usize {
    let received = || -> io::Result<usize> {
        let payload = usize::try_from(rustix::io::ioctl_fionread(socket)?).unwrap_or(usize::MAX);
        Ok(payload.saturating_mul(2).min(SockRef::from(socket).recv_buffer_size()?))
    };
    let queued = if is_blocked { 2 * KERNEL_UNSENT_MAX_BYTES as usize } else { 0 };
    received().unwrap_or_default() + queued
}

#[cfg(test)]
#[path = "socket_memory_tests.rs"]
pub(super) mod tests;
