//! HTTP/1 through the mesh: curl and nginx.

use std::fs;

use leno_tests::mesh::{Mesh, MeshService, Program, Workload, is_installed};

use super::Pair;

/// nginx's port.
pub(super) const PORT: u16 = 8080;
/// Size of the file `big`: larger than every buffer on the path.
const BIG_BYTES: usize = 32 << 20;

/// Starts nginx with three virtual hosts. The default host serves files from `www` in the mesh's directory, and accepts
/// uploads.
pub(super) fn start_nginx(mesh: &Mesh, workload: &Workload) -> Program {
    let directory = mesh.directory().to_str().expect("temporary directories have plain names");
    let www = mesh.directory().join("www");
    fs::create_dir(&www).expect("the directory is ours");
    fs::write(www.join("hello"), "hello from a file\n").expect("the directory is ours");
    let big: Vec<u8> = (0..BIG_BYTES).map(|index| (index % 251) as u8).collect();
    fs::write(www.join("big"), big).expect("the directory is ours");
    let host =
        |name: &str| format!("server {{ listen {PORT}; server_name {name}; return 200 \"this is {name}\\n\"; }}");
    let configuration = format!(
        "user root;
        pid {directory}/nginx.pid;
        events {{}}
        http {{
          access_log off;
          client_body_temp_path {directory}/uploads;
          client_max_body_size 0;
          server {{
            listen {PORT} default_server;
            listen [::]:{PORT};
            root {directory}/www;
            location / {{ dav_methods PUT DELETE; }}
            # 32 MiB in 11 seconds. The server is slow, not its client: a slow client would still read for seconds
            # what the kernel received before the response was cut.
            location /slow/ {{ alias {directory}/www/; limit_rate 3m; }}
            location /nothing {{ return 204; }}
            location /healthz {{ return 200 \"well\"; }}
            location /forwarded {{ return 200 \"$http_x_forwarded_for\n\"; }}
            location /told {{ return 200 \"$http_leno_client_id|$http_x_forwarded_client_cert|$http_l5d_client_id\\n\"; }}
            location /host {{ return 200 \"$host $http_host\n\"; }}
            location /protocol {{ return 200 \"$server_protocol $request_method $http_connection\\n\"; }}
          }}
          {}
          {}
        }}",
        host("one.example"),
        host("two.example"),
    );
    let file = mesh.directory().join("nginx.conf");
    fs::write(&file, configuration).expect("the directory is ours");
    let file = file.to_str().expect("temporary directories have plain names");
    let nginx = workload.start("nginx", &["-c", file, "-g", "daemon off; error_log stderr;"]);
    workload.wait_for_port(PORT);
    nginx
}

/// Creates a client, and nginx as the service `web`.
fn curl_and_nginx() -> Option<(Pair, Program)> {
    curl_and_nginx_with(&[])
}

/// Creates a client, and nginx as the service `web`, with additional arguments for both proxies.
fn curl_and_nginx_with(arguments: &[&str]) -> Option<(Pair, Program)> {
    if !is_installed("nginx", "nginx-light") {
        return None;
    }
    let pair = Pair::with(arguments, |server| MeshService::new("web", PORT).at(server))?;
    let nginx = start_nginx(&pair.mesh, &pair.server);
    Some((pair, nginx))
}

/// Returns the output of curl with these arguments.
fn curl(pair: &Pair, words: &str) -> String {
    let arguments: Vec<&str> = ["-sS"].into_iter().chain(words.split_whitespace()).collect();
    pair.client.run_well("curl", &arguments)
}

#[test]
fn every_kind_of_answer_arrives_as_nginx_gave_it() {
    let Some((pair, _nginx)) = curl_and_nginx() else { return };
    assert_eq!(curl(&pair, "http://web:8080/hello"), "hello from a file\n");

    // Make two requests on one connection.
    let both = curl(&pair, "-w %{num_connects}; http://web:8080/hello http://web:8080/protocol");
    assert_eq!(both, "hello from a file\n1;HTTP/1.1 GET \n0;");

    let head = curl(&pair, "--head http://web:8080/big");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("\r\ncontent-length: {BIG_BYTES}\r\n")), "{head}");

    let nothing = curl(&pair, "-i http://web:8080/nothing");
    assert!(nothing.starts_with("HTTP/1.1 204 No Content\r\n") && nothing.ends_with("\r\n\r\n"), "{nothing}");
    assert!(!nothing.to_lowercase().contains("content-length"), "{nothing}");

    let entity_tag = curl(&pair, "-o /dev/null -w %header{etag} http://web:8080/hello");
    let unchanged = format!("-i -H If-None-Match:{entity_tag} http://web:8080/hello http://web:8080/protocol");
    let unchanged = curl(&pair, &unchanged);
    assert!(unchanged.starts_with("HTTP/1.1 304 Not Modified\r\n"), "{unchanged}");
    assert!(unchanged.ends_with("HTTP/1.1 GET \n"), "the connection goes on: {unchanged}");
    assert!(curl(&pair, "-i http://web:8080/none").starts_with("HTTP/1.1 404 Not Found\r\n"));
    pair.assert_encrypted();
}

#[test]
fn bodies_of_any_size_and_framing_arrive_whole() {
    let Some((pair, _nginx)) = curl_and_nginx() else { return };
    let www = pair.mesh.directory().join("www");
    let directory = www.to_str().expect("temporary directories have plain names");
    let big = fs::read(www.join("big")).expect("it was written");

    let copy = format!("{directory}/copy");
    curl(&pair, &format!("-o {copy} http://web:8080/big"));
    assert!(fs::read(&copy).is_ok_and(|bytes| bytes == big), "the download is another file");

    // Upload in three ways: with a length, with chunked framing, and after the server's 100 Continue.
    for how in ["-H Expect:", "-H Expect: -H Transfer-Encoding:chunked", "-H Expect:100-continue"] {
        let verbose = curl(&pair, &format!("-v {how} -T {directory}/big http://web:8080/uploaded"));
        let asked = how.contains("100-continue");
        assert_eq!(verbose.contains("< HTTP/1.1 100 Continue"), asked, "{how}: {verbose}");
        assert!(fs::read(www.join("uploaded")).is_ok_and(|bytes| bytes == big), "the upload is another file: {how}");
        curl(&pair, "-X DELETE http://web:8080/uploaded");
    }
    pair.assert_encrypted();
}

#[test]
fn http_1_0_clients_and_virtual_hosts_are_served() {
    let Some((pair, _nginx)) = curl_and_nginx() else { return };
    let old = curl(&pair, "-0 -i http://web:8080/protocol");
    assert!(old.contains("\r\nconnection: close\r\n") && old.ends_with(" GET \n"), "{old}");
    assert!(!old.contains("transfer-encoding"), "{old}");
    for name in ["one.example", "two.example"] {
        assert_eq!(curl(&pair, &format!("-H Host:{name} http://web:8080/")), format!("this is {name}\n"));
    }
    pair.assert_encrypted();
    let line = pair.server.wait_for_access(&[("authority", "two.example"), ("protocol", "HTTP/1.1")]);
    assert_eq!(line["client_id"], pair.client.spiffe_id(), "{line}");
}

#[test]
fn a_request_without_a_host_gets_the_name_of_its_target() {
    let Some((pair, _nginx)) = curl_and_nginx() else { return };
    // The client's proxy must add a Host: HTTP/1.1 requires one, and nginx answers 400 to an empty Host.
    let answer = curl(&pair, "-0 -i -H Host: http://web:8080/host");
    let name = "web.default.svc.cluster.local";
    assert!(answer.ends_with(&format!("\r\n\r\n{name} {name}:8080\n")), "{answer}");
    pair.assert_encrypted();

    // The caller has no proxy: the server's proxy sets the called address as the host.
    let stranger = pair.mesh.workload("stranger");
    let url = format!("http://{}:8080/host", pair.server.address());
    let answer = stranger.run_well("curl", &["-sS", "-0", "-i", "-H", "Host:", &url]);
    let address = pair.server.address();
    assert!(answer.ends_with(&format!("\r\n\r\n{address} {address}:8080\n")), "{answer}");
}

#[test]
fn a_client_may_pause_a_download_for_as_long_as_one_of_http_2_may() {
    let limits = ["--limit", "unread_timeout_ms=1000"];
    let Some((pair, _nginx)) = curl_and_nginx_with(&limits) else { return };
    // For five seconds, no program reads the pipe, so curl does not read from its socket either.
    let bytes = pair.client.run_well("bash", &["-c", "curl -sS http://web:8080/big | (sleep 5; wc -c)"]);
    assert_eq!(bytes.trim(), BIG_BYTES.to_string());
}

#[test]
fn a_workload_calls_itself_through_its_own_service() {
    let Some((pair, _nginx)) = curl_and_nginx() else { return };
    assert_eq!(pair.server.run_well("curl", &["-sS", "http://web:8080/hello"]), "hello from a file\n");
    let line = pair.server.wait_for_access(&[("direction", "inbound"), ("path", "/hello")]);
    assert_eq!((&line["tls"], &line["client_id"]), (&"true".into(), &pair.server.spiffe_id().into()), "{line}");
}
