//! Callers and servers outside of the mesh: their connections are unencrypted, as without a mesh.

use std::time::{Duration, Instant};

use leno_tests::mesh::{Mesh, MeshService, is_installed};

use super::http1::{PORT, start_nginx};

#[test]
fn a_meshed_client_calls_what_the_mesh_does_not_know_in_both_families() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (client, stranger) = (mesh.meshed("client", &[]), mesh.workload("stranger"));
    let _nginx = start_nginx(&mesh, &stranger);
    for address in [stranger.address().to_string(), format!("[{}]", stranger.address_v6())] {
        let url = format!("http://{address}:{PORT}/hello");
        assert_eq!(client.run_well("curl", &["-sS", &url]), "hello from a file\n");
    }
    let in_clear = [r#"direction="outbound""#, r#"peer="dst""#, r#"tls="no_identity""#];
    assert!(client.scrape().sum("tcp_open_total", &in_clear) >= 2.0, "{}", client.admin("/metrics"));

    // If one endpoint of a Service has no proxy, this endpoint gets calls too, unencrypted.
    mesh.serve(&MeshService::new("legacy", 80).at_port(&stranger, PORT), &[&client]);
    assert_eq!(client.run_well("curl", &["-sS", "http://legacy/hello"]), "hello from a file\n");
    let of_service = [&in_clear[..], &[r#"dst_service="legacy""#]].concat();
    assert!(client.scrape().sum("tcp_open_total", &of_service) >= 1.0, "{}", client.admin("/metrics"));

    // No program listens on port 81.
    let refused = client.run("curl", &["-sS", "-i", &format!("http://{}:81/", stranger.address())]);
    let answer = String::from_utf8_lossy(&refused.stdout);
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n") && answer.contains("leno-proxy-error: "), "{answer}");
}

#[test]
fn a_client_outside_of_the_mesh_is_served_in_clear_and_has_no_identity() {
    if !(is_installed("nginx", "nginx-light") && is_installed("socat", "socat")) {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (server, stranger) = (mesh.meshed("server", &[]), mesh.workload("stranger"));
    let _nginx = start_nginx(&mesh, &server);
    for address in [server.address().to_string(), format!("[{}]", server.address_v6())] {
        let url = format!("http://{address}:{PORT}/hello");
        assert_eq!(stranger.run_well("curl", &["-sS", &url]), "hello from a file\n");
    }
    let line = server.wait_for_access(&[("path", "/hello"), ("tls", "no_identity")]);
    assert!(line["client_id"].is_null(), "{line}");

    // On MySQL's port the server speaks first, so the proxy does not wait for the client.
    let _mysql = server.start("socat", &["TCP-LISTEN:3306,fork,reuseaddr", "SYSTEM:echo the server speaks first"]);
    server.wait_for_port(3306);
    let began = Instant::now();
    let heard = stranger.run_well("socat", &["-u", &format!("TCP:{}:3306", server.address()), "-"]);
    assert_eq!(heard, "the server speaks first\n");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn an_endpoints_own_address_is_called_with_mutual_tls_too() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (client, server) = (mesh.meshed("client", &[]), mesh.meshed("server", &[]));
    let _nginx = start_nginx(&mesh, &server);
    mesh.serve(&MeshService::new("web", 80).at_port(&server, PORT), &[&client, &server]);
    let url = format!("http://{}:{PORT}/hello", server.address());
    assert_eq!(client.run_well("curl", &["-sS", &url]), "hello from a file\n");
    let line = server.wait_for_access(&[("path", "/hello"), ("tls", "true")]);
    assert_eq!(line["client_id"], client.spiffe_id(), "{line}");
}

#[test]
fn an_endpoint_that_is_not_who_it_must_be_is_not_called() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (client, impostor) = (mesh.meshed("client", &[]), mesh.meshed("impostor", &[]));
    let _nginx = start_nginx(&mesh, &impostor);
    let web = MeshService::new("web", PORT).at(&impostor);
    mesh.apply("web", &web.to_yaml().replace("sa/impostor", "sa/web"), &[&client]);
    let [address, _] = web.cluster_ips();
    let answer = client.run_well("curl", &["-sS", "-i", &format!("http://{address}:{PORT}/hello")]);
    assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    let line = client.proxy().wait_for_output(&["ns/default/sa/impostor", "ns/default/sa/web"]);
    assert!(line.contains("WARN"), "{line}");
    assert!(impostor.access_log().is_empty(), "{:?}", impostor.access_log());
}

#[test]
fn a_stranger_gets_no_further_than_the_ports_of_the_application() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (server, stranger) = (mesh.meshed("server", &[]), mesh.workload("stranger"));
    let _nginx = start_nginx(&mesh, &server);
    let address = server.address();
    let get = |words: &str| {
        let words: Vec<&str> = ["-sS", "-i"].into_iter().chain(words.split(' ')).collect();
        let output = stranger.run("curl", &words);
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // The client sends a request for the admin endpoint to the application's port. The application must answer the
    // request, and not the admin endpoint.
    let admin = "http://127.0.0.1:4191/metrics";
    let (_, answer) = get(&format!("-x http://{address}:{PORT} {admin}"));
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("\r\nServer: nginx"), "{answer}");
    let (connected, answer) = get(&format!("-p -x http://{address}:{PORT} {admin}"));
    assert!(!connected && !answer.contains("HTTP/1.1 200"), "{answer}");

    // The proxy's own ports: 4143 accepts only redirected connections, 15008 accepts only mutual TLS, and 4140 and 4191
    // reject clients from outside of the workload.
    let (_, answer) = get(&format!("-H Host:127.0.0.1:4191 http://{address}:4143/metrics"));
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("\r\nleno-proxy-error: no-route"), "{answer}");
    for port in [15008, 4140, 4191] {
        let (answered, answer) = get(&format!("http://{address}:{port}/metrics"));
        assert!(!answered && answer.is_empty(), "port {port}: {answer}");
    }
}
