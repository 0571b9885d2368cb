use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::*;

/// Returns a connection to ourselves at `ip`: the end that accepted it, and the end that opened it. Neither blocks.
pub(in crate::worker) fn connection(ip: IpAddr) -> Option<(TcpStream, TcpStream)> {
    let listener = std::net::TcpListener::bind((ip, 0)).ok()?;
    let opened = std::net::TcpStream::connect(listener.local_addr().ok()?).ok()?;
    let (accepted, _) = listener.accept().ok()?;
    for end in [&opened, &accepted] {
        end.set_nonblocking(true).expect("a socket");
    }
    Some((TcpStream::from_std(accepted), TcpStream::from_std(opened)))
}

/// Writes until the socket has accepted no byte for a while.
pub(in crate::worker) fn fill(socket: &mut TcpStream) -> usize {
    let mut written = 0;
    let mut latest = Instant::now();
    while latest.elapsed() < Duration::from_millis(300) {
        match socket.write(&[0; 16 << 10]) {
            Ok(length) => (written, latest) = (written + length, Instant::now()),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    written
}

fn assert_memory_is_known(ip: IpAddr) {
    let Some((mut accepted, opened)) = connection(ip) else { return };
    assert!(socket_memory(&accepted, false) <= 4 << 10, "an empty socket: at most a reserved page");
    let written = fill(&mut accepted);
    let (sender, receiver) = (socket_memory(&accepted, true), socket_memory(&opened, false));
    assert!(sender + receiver >= written, "{sender} and {receiver} bytes for {written}");
    assert!(sender > 0 && receiver > 0);
}

#[test]
fn the_kernel_tells_the_memory_of_both_ends_of_a_full_connection() {
    assert_memory_is_known(Ipv4Addr::LOCALHOST.into());
    assert_memory_is_known(Ipv6Addr::LOCALHOST.into());
    assert_memory_is_known(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into());
    let (accepted, _opened) = connection(Ipv4Addr::LOCALHOST.into()).expect("loopback");
    if ask(&accepted).is_none() {
        leno_testing::skipped("the kernel's answers: there is no SO_MEMINFO here");
    }
}

#[test]
fn without_an_answer_the_memory_is_estimated() {
    let (mut accepted, opened) = connection(Ipv4Addr::LOCALHOST.into()).expect("loopback");
    assert_eq!(estimate(&accepted, false), 0);
    fill(&mut accepted);
    assert_eq!(estimate(&accepted, true), 2 * KERNEL_UNSENT_MAX_BYTES as usize);
    let receiver = estimate(&opened, false);
    let bound = SockRef::from(&opened).recv_buffer_size().expect("a socket");
    assert!(receiver > bound / 2 && receiver <= bound, "{receiver} of {bound}");
}
