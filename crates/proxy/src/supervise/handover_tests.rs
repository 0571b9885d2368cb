use std::net::{SocketAddr, TcpStream};
use std::os::fd::IntoRawFd;

use super::*;
use crate::worker::bind_workers;

#[test]
fn a_proxy_has_every_socket_that_its_supervisor_lends() {
    let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let bound = bind_workers(&[(Door::Outbound, address), (Door::Tunnel, address)], 3).expect("ports are free");
    // Duplicate the descriptors, as if a child process had inherited them.
    let inherited = |bound: &Bound| {
        let copy = bound.socket.try_clone().expect("a copy");
        Bound::new(bound.door, copy).expect("it is bound")
    };
    let copies: Vec<Vec<Bound>> = bound.iter().map(|sockets| sockets.iter().map(inherited).collect()).collect();
    lend(&copies).expect("they are open");
    let text = describe(&copies, 7);
    for Bound { socket, .. } in copies.into_iter().flatten() {
        let _ = socket.into_raw_fd();
    }
    let (supervisor, rest) = text.split_once(' ').expect("words");
    assert_eq!(supervisor, std::process::id().to_string());
    let taken = read(rest).expect("a handover");
    assert_eq!(taken.restarts, 7);
    let places = |workers: &[Vec<Bound>]| {
        let place = |bound: &Bound| (bound.door, bound.address);
        workers.iter().map(|sockets| sockets.iter().map(place).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(places(&taken.sockets), places(&bound));

    let [(Door::Outbound, outbound), _] = places(&bound)[2][..] else { panic!("two sockets for each worker") };
    assert!(TcpStream::connect(outbound).is_err(), "a socket that nobody listens at refuses connections");
    taken.sockets[2][0].socket.listen(1).expect("it is bound");
    drop(taken);
    TcpStream::connect(outbound).expect("the supervisor still has the socket, which listens");
}

#[test]
fn what_names_no_sockets_is_no_handover() {
    let file = tempfile::tempfile().expect("a file");
    let of_file = format!("0 0:outbound:{}", file.as_raw_fd());
    for text in ["", "many", "0", "0 ", "0 0", "0 0:outbound", "0 0:outbound:x", "0 x:outbound:3", "0 0:door:3"]
        .into_iter()
        .chain(["0 0:outbound:1", "0 0:outbound:99999", "0 0:outbound:-1", &of_file])
    {
        assert!(matches!(read(text), Err(HandoverError::Unreadable)), "{text}");
    }
}
