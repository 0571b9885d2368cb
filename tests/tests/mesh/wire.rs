//! The frames between meshed workloads contain no plaintext of the applications.

use leno_tests::mesh::{Capture, Frames, Mesh, MeshService, Workload, is_installed};

use super::http1::{PORT, start_nginx};

const HELLO: &[u8] = b"hello from a file";
const GREETING: &[u8] = b"a greeting that goes to the cache";

/// Fetches a file with curl from the server at `web`, and stores a value in the cache at `cache`. Returns all captured
/// frames.
fn talk(mesh: &Mesh, client: &Workload, [web, cache]: [&str; 2]) -> Option<Frames> {
    let capture = Capture::start(mesh, client.name())?;
    assert_eq!(client.run_well("curl", &["-sS", &format!("http://{web}:{PORT}/hello")]), "hello from a file\n");
    let greeting = std::str::from_utf8(GREETING).expect("it is text");
    assert_eq!(client.run_well("redis-cli", &["-h", cache, "set", "greeting", greeting]), "OK\n");
    Some(capture.stop())
}

#[test]
fn payloads_of_http_and_of_opaque_protocols_are_seen_only_without_a_mesh() {
    let needed = [("nginx", "nginx-light"), ("redis-server", "redis-server"), ("redis-cli", "redis-tools")];
    if !needed.iter().all(|(program, package)| is_installed(program, package)) {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (client, server, stranger) =
        (mesh.meshed("client", &[]), mesh.meshed("server", &[]), mesh.workload("stranger"));
    let _nginx = start_nginx(&mesh, &server);
    let _redis = server.start("redis-server", &["--protected-mode", "no", "--save", "", "--bind", "0.0.0.0"]);
    server.wait_for_port(6379);
    mesh.serve(&MeshService::new("web", PORT).at(&server), &[&client, &server]);
    mesh.serve(&MeshService::new("cache", 6379).at(&server), &[&client, &server]);

    let Some(encrypted) = talk(&mesh, &client, ["web", "cache"]) else { return };
    assert!(!encrypted.contain(HELLO) && !encrypted.contain(GREETING));
    // Check that the capture is complete: it has the ClientHellos with the server names that the client's proxy
    // requested.
    assert!(encrypted.contain(b"8080.leno.internal") && encrypted.contain(b"6379.leno.internal"));

    let address = server.address().to_string();
    let clear = talk(&mesh, &stranger, [&address, &address]).expect("tcpdump was there before");
    assert!(clear.contain(HELLO) && clear.contain(GREETING));
}
