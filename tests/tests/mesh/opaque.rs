//! Protocols that the mesh does not parse: byte streams, and the applications' own TLS.

use std::time::{Duration, Instant};

use leno_tests::mesh::{MeshService, Program, Workload, is_installed};
use leno_tests::proxy::wait_for;

use super::Pair;

const PORT: u16 = 9000;
/// Time after which the proxies close a connection whose client has not shown its protocol (`detect_timeout_ms`).
const DETECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which the proxies wait for a silent client before they let the server speak first
/// (`server_first_after_ms`).
const SILENCE: Duration = Duration::from_millis(500);
const DETECT_LIMIT: [&str; 2] = ["--limit", "detect_timeout_ms=3000"];

/// Starts socat in the server's namespace. socat runs `shell` for each connection.
fn serve(pair: &Pair, shell: &str) -> Program {
    let listen = format!("TCP6-LISTEN:{PORT},fork,reuseaddr,ipv6only=0");
    let program = pair.server.start("socat", &[&listen, &format!("SYSTEM:{shell}")]);
    pair.server.wait_for_port(PORT);
    program
}

/// Runs a shell command in the client's namespace. Returns the output and the duration of the command.
fn timed(pair: &Pair, shell: &str) -> (String, Duration) {
    let began = Instant::now();
    let printed = pair.client.run_well("bash", &["-c", shell]);
    (printed, began.elapsed())
}

#[test]
fn a_server_that_speaks_first_is_heard_at_once_on_a_port_that_is_declared_opaque() {
    if !is_installed("socat", "socat") {
        return;
    }
    let pair = Pair::with(&DETECT_LIMIT, |server| {
        MeshService::new("news", PORT).at(server).annotated("leno.dev/opaque-ports", "9000")
    });
    let Some(pair) = pair else { return };
    let _server = serve(&pair, "echo the server speaks first");
    let (heard, took) = timed(&pair, "socat -u TCP:news:9000 -");
    assert_eq!(heard, "the server speaks first\n");
    assert!(took < DETECT_TIMEOUT, "{took:?}");
    pair.assert_encrypted();
}

#[test]
fn a_server_that_speaks_first_is_heard_within_a_second_on_any_other_port_and_then_at_once() {
    if !is_installed("socat", "socat") {
        return;
    }
    let Some(pair) = Pair::new(|server| MeshService::new("news", PORT).at(server)) else { return };
    // The server sends a greeting, waits for the client's answer, and then says goodbye. From the answer, the proxy
    // learns that on this port the server speaks first.
    let _server = serve(&pair, "echo the server speaks first; read answer; echo goodbye $answer");
    let talk = "exec 3<>/dev/tcp/news/9000; read -u 3 greeting; echo $greeting; echo you >&3; cat <&3";
    let heard = "the server speaks first\ngoodbye you\n";
    let (first, took) = timed(&pair, talk);
    assert_eq!(first, heard);
    // On the first connection, the proxy waits for server_first_after_ms, because the client might speak first.
    assert!((SILENCE..DETECT_TIMEOUT).contains(&took), "{took:?}");

    let quickest =
        (0..5).map(|_| timed(&pair, talk)).inspect(|(again, _)| assert_eq!(again, heard)).map(|(_, took)| took);
    let quickest = quickest.min().expect("five times");
    assert!(quickest < SILENCE, "{quickest:?}");
    pair.assert_encrypted();
}

#[test]
fn a_client_that_is_silent_for_long_and_then_speaks_http_is_relayed_as_http() {
    if !is_installed("python3", "python3") {
        return;
    }
    let Some(pair) = Pair::new(|server| MeshService::new("web", PORT).at(server)) else { return };
    let _server = pair.server.start("python3", &["-m", "http.server", &PORT.to_string()]);
    pair.server.wait_for_port(PORT);
    for _ in 0..2 {
        // The client is silent for three times as long as the proxy waits for the first bytes.
        let talk = format!(
            r"exec 3<>/dev/tcp/web/9000; sleep {}; printf 'GET /late HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n' >&3; cat <&3",
            3.0 * SILENCE.as_secs_f64()
        );
        let (heard, _) = timed(&pair, &talk);
        assert!(heard.starts_with("HTTP/1.1 404") && heard.contains("SimpleHTTP"), "{heard}");
    }
    // Both proxies' access logs show that they parsed the request.
    pair.client.wait_for_access(&[("path", "/late"), ("status", "404")]);
    pair.server.wait_for_access(&[("path", "/late"), ("status", "404")]);
    assert_no_guess_is_counted(&pair.client, "outbound", 2);
}

#[test]
fn a_guess_about_a_caller_without_a_proxy_is_no_call_of_the_server_either() {
    if !is_installed("python3", "python3") {
        return;
    }
    let Some(pair) = Pair::new(|server| MeshService::new("web", PORT).at(server)) else { return };
    let stranger = pair.mesh.workload("stranger");
    let _server = pair.server.start("python3", &["-m", "http.server", &PORT.to_string()]);
    pair.server.wait_for_port(PORT);
    let talk = format!(
        r"exec 3<>/dev/tcp/{}/9000; sleep {}; printf 'GET /late HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n' >&3; cat <&3",
        pair.server.address(),
        3.0 * SILENCE.as_secs_f64()
    );
    stranger.run_well("bash", &["-c", &talk]);
    pair.server.wait_for_access(&[("path", "/late"), ("status", "404")]);
    assert_no_guess_is_counted(&pair.server, "inbound", 1);
    let decisions = pair.server.scrape().sum("inbound_tcp_authz_allow_total", &[]);
    assert_eq!(decisions, 0.0);
}

/// Asserts that the proxy's access log and metrics contain only the calls. They must not contain the proxy's earlier,
/// wrong guesses about the protocol.
fn assert_no_guess_is_counted(workload: &Workload, direction: &str, calls: usize) {
    let protocols = wait_for("a line for each call", Duration::from_secs(20), || {
        let lines = workload.access_log();
        let of_direction = lines.iter().filter(|line| line["direction"] == direction);
        let protocols: Vec<String> = of_direction.map(|line| line["protocol"].to_string()).collect();
        (protocols.len() >= calls).then_some(protocols)
    });
    assert_eq!(protocols, vec!["\"HTTP/1.1\""; calls]);
    let scrape = workload.scrape();
    let label = format!("direction=\"{direction}\"");
    assert_eq!(scrape.sum("request_total", &[&label]) as usize, calls);
    assert_eq!(scrape.sum("leno_cancelled_total", &[]), 0.0);
}

/// In printf's notation: HTTP/2's client preface with empty SETTINGS, and the beginning of a GET request to `web` on
/// stream 1 (RFC 9113 section 3.4, RFC 7541). A path of two characters must follow.
const HTTP2_REQUEST: &str = concat!(
    r"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    r"\0\0\x0b\x01\x05\0\0\0\x01\x82\x86\x41\x03web\x04\x02"
);

#[test]
fn a_server_that_sends_settings_to_a_silent_client_is_not_taken_for_one_of_an_opaque_protocol() {
    if !is_installed("nghttpd", "nghttp2-server") {
        return;
    }
    let Some(pair) = Pair::new(|server| MeshService::new("web", PORT).at(server)) else { return };
    let _server = pair.server.start("nghttpd", &["--no-tls", "-d", "/nonexistent", &PORT.to_string()]);
    pair.server.wait_for_port(PORT);
    let silence = 3.0 * SILENCE.as_secs_f64();
    for path in ["/1", "/2"] {
        let talk = format!(
            "exec 3<>/dev/tcp/web/9000; sleep {silence}; printf '{HTTP2_REQUEST}{path}' >&3; head -c 4 <&3 | od -An -tu1; \
             sleep 60"
        );
        let client = pair.client.start("bash", &["-c", &talk]);
        // The answer begins with the proxy's own SETTINGS.
        client.wait_for_output(&[" 4"]);
        for workload in [&pair.client, &pair.server] {
            workload.wait_for_access(&[("path", path), ("status", "404")]);
        }
    }
}

#[test]
fn each_side_may_say_that_it_has_said_all_and_still_hear_the_other() {
    if !is_installed("socat", "socat") {
        return;
    }
    let Some(pair) = Pair::new(|server| MeshService::new("sum", PORT).at(server)) else { return };
    // sha256sum answers after the end of its input: the client's end of stream must reach sha256sum, and the answer
    // must reach the client.
    let _server = serve(&pair, "sha256sum");
    let bytes = "head -c 3000000 /dev/zero";
    let expected = pair.client.run_well("sh", &["-c", &format!("{bytes} | sha256sum")]);
    let (answer, _) = timed(&pair, &format!("{bytes} | socat -t 30 - TCP:sum:9000"));
    assert_eq!(answer, expected);
    pair.assert_encrypted();
    wait_for("the end of the connection", Duration::from_secs(20), || {
        (pair.client.scrape().sum("tcp_open_connections", &[r#"peer="src""#]) == 0.0).then_some(())
    });
    let line = pair.server.wait_for_access(&[("protocol", "TCP"), ("tls", "true")]);
    assert_eq!(line["client_id"], pair.client.spiffe_id(), "{line}");
    assert_eq!(line["request_bytes"], 3_000_000, "{line}");
}

#[test]
fn the_applications_own_tls_passes_through_and_its_certificate_is_theirs() {
    let Some(pair) = Pair::new(|server| MeshService::new("vault", PORT).at(server)) else { return };
    let directory = pair.mesh.directory().to_str().expect("temporary directories have plain names");
    let [key, certificate] = ["key", "crt"].map(|name| format!("{directory}/vault.{name}"));
    let make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=vault -addext";
    let make = make.split(' ').chain(["subjectAltName=DNS:vault", "-keyout", &key, "-out", &certificate]);
    pair.server.run_well("openssl", &make.collect::<Vec<&str>>());
    let port = PORT.to_string();
    let words = ["s_server", "-accept", &port, "-www", "-key", &key, "-cert", &certificate];
    let _server = pair.server.start("openssl", &words);
    pair.server.wait_for_port(PORT);

    // curl verifies that the certificate is the server's own.
    let page = pair.client.run_well("curl", &["-sS", "--cacert", &certificate, "https://vault:9000/"]);
    assert!(page.contains("TLSv1.3"), "{page}");
    // Call once more without a server name, in a TLS version that the mesh itself does not use.
    let old = pair
        .client
        .run_well("curl", &["-sSk", "--tls-max", "1.2", &format!("https://{}:9000/", pair.server.address())]);
    assert!(old.contains("TLSv1.2"), "{old}");
    pair.assert_encrypted();
}

/// A client that connects, sends bytes that are not HTTP, and prints how the connection ends.
const END_OF_CONNECTION: &str = r#"
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
connection.settimeout(20)
try:
    connection.sendall(b"\x00hello")
    answer = b"".join(iter(lambda: connection.recv(4096), b""))
    print("end after", answer)
except ConnectionResetError:
    print("reset")
"#;

/// A server that reads one byte of each connection, and then resets the connection.
const RESETTING_SERVER: &str = r#"
import socket, struct, sys
listener = socket.create_server(("", int(sys.argv[1])))
while True:
    connection, _ = listener.accept()
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
"#;

/// Returns how a connection from `workload` to the port of `host` ends.
fn end_of_connection(workload: &Workload, host: &str) -> String {
    workload.run_well("python3", &["-c", END_OF_CONNECTION, host, &PORT.to_string()])
}

#[test]
fn a_client_whose_server_refuses_the_connection_sees_a_reset() {
    let Some(pair) = Pair::new(|server| MeshService::new("silent", PORT).at(server)) else { return };
    // No program listens on the port.
    assert_eq!(end_of_connection(&pair.client, "silent"), "reset\n");
    pair.client.wait_for_access(&[("protocol", "TCP"), ("direction", "outbound")]);

    let plain = pair.mesh.workload("plain");
    assert_eq!(end_of_connection(&pair.client, &plain.address().to_string()), "reset\n");
    assert_eq!(end_of_connection(&plain, &pair.server.address().to_string()), "reset\n");
}

#[test]
fn a_client_whose_server_resets_the_connection_sees_a_reset() {
    let Some(pair) = Pair::new(|server| MeshService::new("rude", PORT).at(server)) else { return };
    let _server = pair.server.start("python3", &["-c", RESETTING_SERVER, &PORT.to_string()]);
    pair.server.wait_for_port(PORT);
    let plain = pair.mesh.workload("plain");
    for (caller, host) in [(&pair.client, "rude".to_owned()), (&plain, pair.server.address().to_string())] {
        assert_eq!(end_of_connection(caller, &host), "reset\n", "{}", caller.name());
    }
}

#[test]
fn a_client_that_a_policy_denies_sees_a_reset() {
    let deny = ["--default-inbound-policy", "deny"];
    let Some(pair) = Pair::with(&deny, |server| MeshService::new("private", PORT).at(server)) else { return };
    let _server = pair.server.start("python3", &["-m", "http.server", &PORT.to_string()]);
    pair.server.wait_for_port(PORT);
    let plain = pair.mesh.workload("plain");
    for (caller, host) in [(&pair.client, "private".to_owned()), (&plain, pair.server.address().to_string())] {
        assert_eq!(end_of_connection(caller, &host), "reset\n", "{}", caller.name());
    }
    pair.server.wait_for_access(&[("protocol", "TCP"), ("proxy_error", "denied")]);
}
