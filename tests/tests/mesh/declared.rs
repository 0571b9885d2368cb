//! A Service declares that a port speaks HTTP, while connections to this port are already open. The proxy must then end
//! the connections that carry something else. Connections stay if they carry HTTP or TLS, or no data yet.

use std::fs;
use std::path::Path;

use leno_tests::mesh::{Mesh, MeshService, Workload};
use leno_tests::proxy::wait_for;

use super::review::{ECHO, OPAQUE_PORT, SOON};

/// Ports of the application. The Service declares only the first port.
const PORTS: [u16; 2] = [9000, 9001];
const XDS_PORT: u16 = 15010;

/// A client that sends `first` and waits for its echo. Once the file `go` exists, the client sends `then`, and prints
/// STAYS if the echo of `then` arrives, or ENDED if the connection ends.
const TALKER: &str = "import os, socket, sys, time
address, port, first, then, go = sys.argv[1:]
c = socket.create_connection((address, int(port)), 5)
c.settimeout(20)
first, then = bytes.fromhex(first), bytes.fromhex(then)
c.sendall(first)
heard = b''
while len(heard) < len(first):
    heard += c.recv(1000)
print('BEGUN', flush=True)
while not os.path.exists(go):
    time.sleep(0.05)
try:
    c.sendall(then)
    heard = c.recv(1000)
except (ConnectionResetError, BrokenPipeError):
    heard = b''
print('STAYS' if heard == then else 'ENDED' if heard == b'' else heard, flush=True)";

/// Bytes of no protocol, in hexadecimal.
const OTHER: &str = "000102";
/// The beginning of a TLS ClientHello, in hexadecimal.
const TLS: &str = "160301003201";

#[test]
fn connections_that_carry_something_else_end_when_a_service_declares_their_port_to_speak_http() {
    let Some(mesh) = Mesh::new() else { return };
    let control = mesh.workload("control");
    let (manifests, authority) = (mesh.manifests(), mesh.authority());
    let text = |path: &Path| path.to_str().expect("a path of ours").to_owned();
    let xds = format!("0.0.0.0:{XDS_PORT}");
    let own = ["--identity", "ns/leno/sa/leno-control", "--issuer", &text(&authority)];
    let served = ["--config", &text(&manifests), "--xds", &xds];
    let _control = control.start("leno-control", &[&served[..], &own].concat());
    control.wait_for_port(XDS_PORT);

    let asks = ["--control", &format!("{}:{XDS_PORT}", control.address())];
    let server = mesh.meshed("server", &[&asks[..], &["--limit", "detect_timeout_ms=2000"]].concat());
    let echo = server.start("python3", &["-c", ECHO, &PORTS[0].to_string(), &PORTS[1].to_string()]);
    PORTS.iter().for_each(|port| server.wait_for_port(*port));
    let stranger = mesh.workload("stranger");
    let go = mesh.directory().join("go");
    let talk = |port: u16, first: &str, then: &str| {
        let address = server.address().to_string();
        let arguments = ["-c", TALKER, &address, &port.to_string(), first, then, &text(&go)];
        let talker = stranger.start("python3", &arguments);
        talker.wait_for_output(&["BEGUN"]);
        talker
    };
    let [declared, other] = PORTS;
    let ends = [talk(declared, OTHER, OTHER), talk(declared, "", OTHER)];
    let stays = [talk(declared, TLS, OTHER), talk(other, OTHER, OTHER), talk(other, "", OTHER)];

    // The server accepts a connection for each client, even for the silent clients: a server may speak first, so the
    // proxy also connects silent clients.
    let accepted = || echo.output().lines().filter(|line| line.contains("ACCEPTED")).count();
    wait_for("the server has all connections", SOON, || (accepted() >= ends.len() + stays.len()).then_some(()));

    mesh.serve(&MeshService::new("shop", declared).at(&server).app_protocol("http"), &[]);
    server.proxy().wait_for_output(&["inbound connection from", "declared to speak HTTP"]);
    fs::write(&go, "").expect("the directory is ours");
    for (talkers, end) in [(&ends[..], "ENDED"), (&stays[..], "STAYS")] {
        talkers.iter().for_each(|talker| drop(talker.wait_for_output(&[end])));
    }
    wait_for("both are counted", SOON, || (not_http(&server) == 2.0).then_some(()));
}

#[test]
fn a_probe_does_not_change_that_a_port_is_opaque_everywhere() {
    let Some(mesh) = Mesh::new() else { return };
    let server = mesh.meshed("server", &["--probe", &format!("{OPAQUE_PORT}/live")]);
    let _echo = server.start("python3", &["-c", ECHO, &OPAQUE_PORT.to_string()]);
    server.wait_for_port(OPAQUE_PORT);
    let go = mesh.directory().join("go");
    fs::write(&go, "").expect("the directory is ours");
    let words = [&*server.address().to_string(), &OPAQUE_PORT.to_string(), OTHER, OTHER, &go.display().to_string()]
        .map(str::to_owned);
    let words: Vec<&str> = ["-c", TALKER].into_iter().chain(words.iter().map(String::as_str)).collect();
    mesh.workload("stranger").start("python3", &words).wait_for_output(&["STAYS"]);
}

/// Returns the number of connections that ended because they carry something other than HTTP.
fn not_http(server: &Workload) -> f64 {
    server.scrape().sum("leno_connections_failed_total", &[r#"direction="inbound""#, r#"why="not-http""#])
}
