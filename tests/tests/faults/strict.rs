//! A workload whose policy requires mutual TLS, and a client outside of the mesh, which calls without TLS.

use leno_tests::mesh::{Mesh, MeshService, Workload};
use leno_tests::programs;

const PORT: u16 = 50051;
const OPAQUE_PORT: u16 = 6379;
const STRICT: [&str; 2] = ["--default-inbound-policy", "cluster-authenticated"];
const GRPC: [&str; 5] = ["--http2-prior-knowledge", "-H", "content-type: application/grpc", "-d", ""];
/// A server that prints a line for each connection before it answers.
const OPAQUE_SERVER: &str = "import socket, sys
s = socket.create_server(('0.0.0.0', 6379))
while True:
    c, a = s.accept()
    print('CONNECTED', a, flush=True)
    c.sendall(b'HELLO')
    c.close()";
/// A client that prints the server's data, or empty data if the connection is reset first.
const OPAQUE_CLIENT: &str = "import socket, sys
try:
    c = socket.create_connection((sys.argv[1], 6379), 5)
    print('HEARD', c.recv(100))
except ConnectionResetError:
    print('HEARD', b'')";

fn hear(client: &Workload, address: &str) -> String {
    programs::text(&client.run("python3", &["-c", OPAQUE_CLIENT, address]))
}

#[test]
fn plaintext_to_a_strict_port_is_denied_as_its_protocol_has_it() {
    let Some(mesh) = Mesh::new() else { return };
    let (server, member) = (mesh.meshed("echo", &STRICT), mesh.meshed("web", &[]));
    let outsider = mesh.workload("outsider");
    let _echo = server.start("leno", &["echo", "--listen", "0.0.0.0:50051", "--name", "echo"]);
    let opaque = server.start("python3", &["-c", OPAQUE_SERVER]);
    server.wait_for_port(PORT);
    server.wait_for_port(OPAQUE_PORT);
    mesh.serve(&MeshService::new("echo", PORT).at(&server), &[&server, &member]);
    mesh.serve(&MeshService::new("store", OPAQUE_PORT).at(&server), &[&server, &member]);

    let url = format!("http://{}:{PORT}/leno.echo.v1.Echo/Unary", server.address());
    let curl =
        |arguments: &[&str]| outsider.run_well("curl", &[&["-sSi", "--max-time", "5", &url], arguments].concat());
    for (version, status) in [("--http1.1", "HTTP/1.1 403"), ("--http2-prior-knowledge", "HTTP/2 403")] {
        let answer = curl(&[version]);
        assert!(answer.starts_with(status) && answer.contains("leno-proxy-error: denied"), "{answer}");
    }
    // 7 is PERMISSION_DENIED.
    let answer = curl(&GRPC);
    assert!(answer.starts_with("HTTP/2 200") && answer.contains("grpc-status: 7"), "{answer}");
    assert_eq!(hear(&outsider, &server.address().to_string()), "HEARD b''\n");
    assert!(!opaque.output().contains("CONNECTED"), "{}", opaque.output());

    let denied = [r#"direction="inbound""#, r#"why="denied""#];
    assert_eq!(server.scrape().sum("leno_connections_failed_total", &denied), 4.0);
    let lines = server.log().lines().filter(|line| line.contains("without identity may not use port")).count();
    assert_eq!(lines, 4, "{}", server.log());

    // For comparison: a client with an identity may call.
    let call = ["-plaintext", "-d", "{}", "echo:50051", "leno.echo.v1.Echo/Unary"];
    assert!(member.run_well("grpcurl", &call).contains("\"server\": \"echo\""));
    assert_eq!(hear(&member, &server.address().to_string()), "HEARD b'HELLO'\n");
}
