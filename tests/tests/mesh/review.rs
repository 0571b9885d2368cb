//! Accepted connections, tunnels, upgrades, streams and responses end when a change of policy no longer allows them.

use std::time::Duration;

use leno_tests::mesh::{Mesh, MeshService, Program, Workload, is_installed};
use leno_tests::proxy::wait_for;

use super::grpc;
use super::http1::{PORT, start_nginx};

/// Redis' port, which is opaque everywhere.
pub(super) const OPAQUE_PORT: u16 = 6379;
/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
pub(super) const SOON: Duration = Duration::from_secs(20);
/// Longest time until the proxy ends a connection or response that a policy denies. The proxy needs less than one
/// second; the rest is for a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A server that listens on the given ports, prints a line for each connection, and echoes the connection's input.
pub(super) const ECHO: &str = "import socket, sys, threading
def serve(c):
    try:
        while part := c.recv(1000):
            c.sendall(part)
    except OSError:
        pass
def listen(s):
    while True:
        threading.Thread(target=serve, args=(s.accept()[0],)).start()
        print('ACCEPTED', flush=True)
for port in sys.argv[1:]:
    threading.Thread(target=listen, args=(socket.create_server(('0.0.0.0', int(port))),)).start()";
/// The start of a client's script: connects to an opaque port. [`TALK`] must follow.
const OPAQUE: &str = "import socket, sys, time
c = socket.create_connection((sys.argv[1], 6379), 5)
c.settimeout(20)
";
/// The end of a client's script: sends data on the connection `c` every tenth of a second, and prints a line when the
/// echo stops.
const TALK: &str = "
n = 0
try:
    while True:
        c.sendall(b'ping')
        if not c.recv(100):
            break
        n += 1
        print('HEARD', n, flush=True)
        time.sleep(0.1)
except OSError:
    pass
print('ENDED', flush=True)";

/// A server that accepts every request with `Upgrade` on port 8080, and echoes the bytes that follow the request.
const UPGRADER: &str = "import socket, threading
def serve(c):
    head = b''
    while b'\\r\\n\\r\\n' not in head:
        part = c.recv(1000)
        if not part:
            return
        head += part
    assert b'upgrade: echo' in head.lower(), head
    c.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\nupgrade: echo\\r\\n\\r\\n')
    try:
        while part := c.recv(1000):
            c.sendall(part)
    except OSError:
        pass
s = socket.create_server(('0.0.0.0', 8080))
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()";
/// The start of a client's script: opens a connection to port 8080, and upgrades it. [`TALK`] must follow.
const UPGRADED: &str = "import socket, time
c = socket.create_connection(('store', 8080), 5)
c.settimeout(20)
c.sendall(b'GET /room HTTP/1.1\\r\\nhost: store\\r\\nconnection: upgrade\\r\\nupgrade: echo\\r\\n\\r\\n')
head = b''
while b'\\r\\n\\r\\n' not in head:
    head += c.recv(1)
print(head.split(b'\\r\\n')[0].decode(), flush=True)
";

/// Puts a policy in force for the service account `store`.
fn allow(mesh: &Mesh, server: &Workload, rules: &str) {
    let policy = format!(
        "apiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {{name: store}}\nspec:\n  \
         targetRef: {{kind: ServiceAccount, name: store}}\n  allow: {rules}\n"
    );
    mesh.apply("policy", &policy, &[server]);
}

fn has_ended(program: &Program) -> bool {
    program.output().contains("ENDED")
}

/// Number of further lines that show that a program still works. A program's message about an error has fewer lines.
const MORE_LINES: usize = 30;

/// Waits until `program` has printed more than [`MORE_LINES`] further lines, and asserts that it has not ended.
fn goes_on(program: &Program) {
    let before = program.output().lines().count();
    wait_for("more lines", SOON, || (program.output().lines().count() > before + MORE_LINES).then_some(()));
    assert!(!has_ended(program), "{}", program.output());
}

/// Waits until the server's proxy has logged that it ended a connection, a stream or a response of `client`, and why.
fn is_told_why(server: &Workload, client: &Workload) {
    let line = server.proxy().wait_for_output(&["a change of policy ends", &client.spiffe_id()]);
    assert!(line.contains("WARN") && line.contains("AuthorizationPolicy default/store"), "{line}");
}

#[test]
fn a_change_of_policy_ends_the_opaque_connections_that_it_denies_and_no_others() {
    let Some(mesh) = Mesh::new() else { return };
    let server = mesh.meshed("store", &[]);
    let [web, cart] = ["web", "cart"].map(|name| mesh.meshed(name, &[]));
    let stranger = mesh.workload("stranger");
    let _echo = server.start("python3", &["-c", ECHO, &OPAQUE_PORT.to_string()]);
    server.wait_for_port(OPAQUE_PORT);
    mesh.serve(&MeshService::new("store", OPAQUE_PORT).at(&server), &[&server, &web, &cart]);
    let network = format!("{{networks: [{}]}}", stranger.address());
    allow(&mesh, &server, &format!("[{{identities: [ns/default/sa/web, ns/default/sa/cart]}}, {network}]"));
    let talk = |from: &Workload, to: &str| from.start("python3", &["-c", &[OPAQUE, TALK].concat(), to]);
    let address = server.address().to_string();
    let talkers = [talk(&web, "store"), talk(&cart, "store"), talk(&stranger, &address)];
    talkers.iter().for_each(|talker| drop(talker.wait_for_output(&["HEARD 1"])));

    // Change the policy so that it still allows all these connections. The proxy must end none of them.
    allow(&mesh, &server, &format!("[{{identities: [ns/default/sa/*]}}, {network}]"));
    allow(&mesh, &server, "[{identities: [ns/default/sa/cart]}]");
    let [web_talks, cart_talks, stranger_talks] = &talkers;
    for (who, talker) in [("web's tunnel", web_talks), ("the stranger's connection", stranger_talks)] {
        wait_for(&format!("{who} ends"), ENDS_WITHIN, || has_ended(talker).then_some(()));
    }
    is_told_why(&server, &web);
    server.proxy().wait_for_output(&["a change of policy ends", "a client without identity"]);
    let withdrawn = [r#"direction="inbound""#, r#"why="withdrawn""#];
    assert_eq!(server.scrape().sum("leno_connections_failed_total", &withdrawn), 2.0);

    goes_on(cart_talks);
}

#[test]
fn a_change_of_policy_ends_a_response_that_goes_on_and_leaves_one_that_is_still_allowed() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let server = mesh.meshed("store", &[]);
    let [web, cart] = ["web", "cart"].map(|name| mesh.meshed(name, &[]));
    let _nginx = start_nginx(&mesh, &server);
    mesh.serve(&MeshService::new("store", PORT).at(&server), &[&server, &web, &cart]);
    allow(&mesh, &server, "[{identities: [ns/default/sa/web, ns/default/sa/cart]}]");
    let url = format!("http://store:{PORT}/slow/big");
    let shell = format!("curl -sS -o /dev/null -w 'READ %{{size_download}}' {url}; echo ENDED $?");
    let downloads = [&web, &cart].map(|client| client.start("bash", &["-c", &shell]));
    for client in [&web, &cart] {
        let begun = [r#"direction="outbound""#, r#"peer="dst""#];
        wait_for("the download has begun", SOON, || {
            (client.scrape().sum("tcp_read_bytes_total", &begun) > 1_000_000.0).then_some(())
        });
    }
    allow(&mesh, &server, "[{identities: [ns/default/sa/cart]}]");
    let [of_web, of_cart] = &downloads;
    wait_for("the download ends", ENDS_WITHIN, || has_ended(of_web).then_some(()));
    let line = of_web.wait_for_output(&["ENDED"]);
    assert!(!line.contains("ENDED 0"), "{line}");
    let line = of_cart.wait_for_output(&["ENDED"]);
    assert!(line.contains("READ 33554432") && line.contains("ENDED 0"), "{line}");
}

#[test]
fn a_change_of_policy_ends_an_upgraded_connection_and_leaves_one_that_is_still_allowed() {
    let Some(mesh) = Mesh::new() else { return };
    let server = mesh.meshed("store", &[]);
    let [web, cart] = ["web", "cart"].map(|name| mesh.meshed(name, &[]));
    let _upgrader = server.start("python3", &["-c", UPGRADER]);
    server.wait_for_port(PORT);
    mesh.serve(&MeshService::new("store", PORT).at(&server), &[&server, &web, &cart]);
    allow(&mesh, &server, "[{identities: [ns/default/sa/web, ns/default/sa/cart]}]");
    let talkers = [&web, &cart].map(|client| client.start("python3", &["-c", &[UPGRADED, TALK].concat()]));
    talkers.iter().for_each(|talker| drop(talker.wait_for_output(&["HEARD 1"])));
    assert!(talkers.iter().all(|talker| talker.output().contains("101 Switching Protocols")), "{talkers:?}");

    allow(&mesh, &server, "[{identities: [ns/default/sa/cart]}]");
    let [of_web, of_cart] = &talkers;
    wait_for("web's upgraded connection ends", ENDS_WITHIN, || has_ended(of_web).then_some(()));
    is_told_why(&server, &web);
    goes_on(of_cart);
}

#[test]
fn a_change_of_policy_ends_a_grpc_stream_and_leaves_one_that_is_still_allowed() {
    let Some(mesh) = Mesh::new() else { return };
    let server = mesh.meshed("store", &[]);
    let [web, cart] = ["web", "cart"].map(|name| mesh.meshed(name, &[]));
    let _echo = grpc::start_echo(&server);
    mesh.serve(&MeshService::new("store", grpc::PORT).at(&server), &[&server, &web, &cart]);
    allow(&mesh, &server, "[{identities: [ns/default/sa/web, ns/default/sa/cart]}]");
    let shell = format!(
        "grpcurl -plaintext -d '{{\"messages\": 1000, \"delay_ms\": 100}}' store:{} leno.echo.v1.Echo/ServerStream 2>&1; \
         echo ENDED $?",
        grpc::PORT
    );
    let streams = [&web, &cart].map(|client| client.start("bash", &["-c", &shell]));
    streams.iter().for_each(|stream| drop(stream.wait_for_output(&["\"number\": 2"])));

    allow(&mesh, &server, "[{identities: [ns/default/sa/cart]}]");
    let [of_web, of_cart] = &streams;
    wait_for("web's stream ends", ENDS_WITHIN, || has_ended(of_web).then_some(()));
    let output = of_web.output();
    assert!(output.contains("PermissionDenied") && !output.contains("ENDED 0"), "{output}");
    goes_on(of_cart);
}
