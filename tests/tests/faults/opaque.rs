//! Opaque connections whose peer has vanished, or is only too busy to read.

use std::time::Duration;

use leno_tests::mesh::{Mesh, MeshService, Workload};
use leno_tests::proxy::wait_for;

const PORT: u16 = 6379;
/// Limits: the shortest keepalive time that the proxy accepts, and an even shorter time for unread data. A proxy must
/// not end an opaque connection because of unread data.
const IMPATIENT: [&str; 4] = ["--limit", "keepalive_ms=3000", "--limit", "unread_timeout_ms=1000"];
/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A server that sends HELLO, and prints a line when the connection has ended.
const GREETER: &str = "import socket
s = socket.create_server(('0.0.0.0', 6379))
while True:
    c, a = s.accept()
    c.sendall(b'HELLO')
    try:
        c.recv(100)
    except OSError:
        pass
    print('ENDED', flush=True)";
/// A client that receives HELLO, and prints a line when the connection has ended.
const LISTENER: &str = "import socket, sys
c = socket.create_connection((sys.argv[1], 6379), 5)
c.settimeout(None)
print('HEARD', c.recv(100), flush=True)
try:
    c.recv(100)
except OSError:
    pass
print('ENDED', flush=True)";
/// A server that waits for a while before it reads, and then sends the number of bytes that it has read.
const BUSY_SERVER: &str = "import socket, time
s = socket.create_server(('0.0.0.0', 6379))
while True:
    c, a = s.accept()
    time.sleep(6)
    n = 0
    while part := c.recv(1 << 20):
        n += len(part)
    c.sendall(b'%d' % n)
    c.close()";
/// A client that sends more than all buffers on the path hold, and prints the answer.
const SENDER: &str = "import socket, sys
c = socket.create_connection((sys.argv[1], 6379), 5)
c.settimeout(20)
c.sendall(bytes(32 << 20))
c.shutdown(socket.SHUT_WR)
print('HEARD', c.recv(100), flush=True)";

/// A server that sends each client more than all buffers on the path hold.
const GENEROUS_SERVER: &str = "import socket
s = socket.create_server(('0.0.0.0', 6379))
while True:
    c, a = s.accept()
    try:
        c.sendall(bytes(32 << 20))
    except OSError as e:
        print(e, flush=True)
    c.close()";
/// A client that waits for a while before it reads, and then prints the number of bytes that it has read.
const BUSY_CLIENT: &str = "import socket, sys, time
c = socket.create_connection((sys.argv[1], 6379), 5)
c.settimeout(20)
time.sleep(3)
n = 0
while part := c.recv(1 << 20):
    n += len(part)
print('HEARD', n, flush=True)";

/// Drops all packets from the workload `from` that arrive at the workload `at`.
fn drop_packets(at: &Workload, from: &Workload) {
    let chain = "chain input { type filter hook input priority 0;";
    let rules = format!("table inet faults {{ {chain} ip saddr {} drop; }}; }}", from.address());
    at.run_well("nft", &[&rules]);
}

#[test]
fn an_opaque_connection_whose_machine_vanishes_ends_on_both_sides() {
    let Some(mesh) = Mesh::new() else { return };
    let (server, client) = (mesh.meshed("store", &IMPATIENT), mesh.meshed("web", &IMPATIENT));
    let greeter = server.start("python3", &["-c", GREETER]);
    server.wait_for_port(PORT);
    mesh.serve(&MeshService::new("store", PORT).at(&server), &[&server, &client]);
    let listener = client.start("python3", &["-c", LISTENER, "store"]);
    listener.wait_for_output(&["HEARD b'HELLO'"]);

    drop_packets(&server, &client);
    drop_packets(&client, &server);
    for (side, program) in [("client's", &listener), ("server's", &greeter)] {
        wait_for(&format!("the {side} connection has ended"), SOON, || {
            program.output().contains("ENDED").then_some(())
        });
    }
}

#[test]
fn an_opaque_connection_may_stay_unread_for_as_long_as_its_server_likes() {
    let Some(mesh) = Mesh::new() else { return };
    for (name, is_meshed) in [("meshed", true), ("plain", false)] {
        let mut server = mesh.workload(name);
        if is_meshed {
            server.join(&IMPATIENT);
        }
        let client = mesh.meshed(&format!("web-{name}"), &IMPATIENT);
        let _busy = server.start("python3", &["-c", BUSY_SERVER]);
        server.wait_for_port(PORT);
        mesh.serve(&MeshService::new(name, PORT).at(&server), &[&client]);
        assert_eq!(client.run_well("python3", &["-c", SENDER, name]), "HEARD b'33554432'\n");
    }
}

#[test]
fn what_a_client_leaves_unread_is_not_held_against_the_tunnel_that_it_shares() {
    let Some(mesh) = Mesh::new() else { return };
    // Use the limit's minimum, 65,536 bytes. A single connection of this test has more bytes in transit.
    let server = mesh.meshed("store", &["--limit", "max_buffered_bytes_per_client=65536"]);
    let client = mesh.meshed("web", &[]);
    let _generous = server.start("python3", &["-c", GENEROUS_SERVER]);
    server.wait_for_port(PORT);
    mesh.serve(&MeshService::new("store", PORT).at(&server), &[&client]);
    assert_eq!(client.run_well("python3", &["-c", BUSY_CLIENT, "store"]), "HEARD 33554432\n");
}
