use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
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

fn assert_memory_is_known(memory: &mut SocketMemory, ip: IpAddr) {
    let Some((mut accepted, opened)) = connection(ip) else { return };
    assert!(memory.bytes(&accepted, false) <= 4 << 10, "an empty socket: at most a reserved page");
    let written = fill(&mut accepted);
    let (sender, receiver) = (memory.bytes(&accepted, true), memory.bytes(&opened, false));
    assert!(sender + receiver >= written, "{sender} and {receiver} bytes for {written}");
    assert!(sender > 0 && receiver > 0);
}

#[test]
fn the_kernel_tells_the_memory_of_both_ends_of_a_full_connection() {
    let mut memory = SocketMemory::default();
    assert_memory_is_known(&mut memory, Ipv4Addr::LOCALHOST.into());
    assert_memory_is_known(&mut memory, Ipv6Addr::LOCALHOST.into());
    assert_memory_is_known(&mut memory, Ipv4Addr::LOCALHOST.to_ipv6_mapped().into());
    if !matches!(memory.kernel, Kernel::Answers(_)) {
        leno_testing::skipped("the kernel's answers: there is no sock_diag here");
    }
}

#[test]
fn without_an_answer_the_memory_is_estimated() {
    let mut memory = SocketMemory { kernel: Kernel::Silent, sequence: 0 };
    let (mut accepted, opened) = connection(Ipv4Addr::LOCALHOST.into()).expect("loopback");
    assert_eq!(memory.bytes(&accepted, false), 0);
    fill(&mut accepted);
    assert_eq!(memory.bytes(&accepted, true), 2 * KERNEL_UNSENT_MAX_BYTES as usize);
    let receiver = memory.bytes(&opened, false);
    let bound = SockRef::from(&opened).recv_buffer_size().expect("a socket");
    assert!(receiver > bound / 2 && receiver <= bound, "{receiver} of {bound}");
}

#[test]
fn an_answer_that_is_malformed_has_no_memory() {
    let mut answer = vec![0; ATTRIBUTES_AT];
    answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    assert_eq!(memory_in(&answer), None, "no attribute");
    // An attribute of length 0, and one that is longer than the answer.
    for length in [0_u16, 200] {
        let mut answer = answer.clone();
        answer.extend(length.to_ne_bytes());
        answer.extend(8_u16.to_ne_bytes());
        assert_eq!(memory_in(&answer), None);
    }
    for length in 0..answer.len() {
        assert_eq!(memory_in(&answer[..length]), None);
    }
    let mut known = answer.clone();
    known.extend([8, 0].map(u16::to_ne_bytes).concat());
    known.extend([0; 4]);
    known.extend([40, MEMORY].map(u16::to_ne_bytes).concat());
    known.extend([1_u32, 2, 3, 4, 50, 600, 7, 8_000, 9].map(u32::to_ne_bytes).concat());
    assert_eq!(memory_in(&known), Some(8_651));
}
