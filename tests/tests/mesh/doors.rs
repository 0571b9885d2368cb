//! The proxy's ports: what an outside client can reach, occupy and send through them.

use std::time::Duration;

use leno_tests::mesh::{Mesh, MeshService, Program, Workload, is_installed};
use leno_tests::proxy::{Signal, wait_for};

use super::http1::{PORT, start_nginx};

/// Longest time that a test waits for an event that it expects soon. It allows for a busy machine.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn the_application_is_told_who_calls_and_hears_it_from_its_own_proxy_only() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (web, cart, stranger) = (mesh.meshed("web", &[]), mesh.meshed("cart", &[]), mesh.workload("stranger"));
    let _nginx = start_nginx(&mesh, &web);
    mesh.serve(&MeshService::new("web", PORT).at(&web), &[&web, &cart]);
    let forged = ["leno-client-id", "Leno-Client-Id", "leno.client.id", "x-forwarded-client-cert", "l5d-client-id"];
    let forged: Vec<String> = forged.iter().flat_map(|name| ["-H".to_owned(), format!("{name}: forged")]).collect();
    let url = |host: &str| format!("http://{host}:{PORT}/told");
    let tell = |caller: &leno_tests::mesh::Workload, host: &str, version: &str| {
        let mut arguments = vec!["-sS".to_owned(), version.to_owned(), url(host)];
        arguments.extend(forged.iter().cloned());
        caller.run_well("curl", &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(tell(&cart, "web", "--http1.1"), format!("{}||\n", cart.spiffe_id()));
    assert_eq!(tell(&stranger, &web.address().to_string(), "--http1.1"), "||\n");
}

#[test]
fn x_forwarded_client_cert_is_written_on_request() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (web, cart) = (mesh.meshed("web", &["--forwarded-client-cert"]), mesh.meshed("cart", &[]));
    let _nginx = start_nginx(&mesh, &web);
    mesh.serve(&MeshService::new("web", PORT).at(&web), &[&web, &cart]);
    let told =
        cart.run_well("curl", &["-sS", "-H", "x-forwarded-client-cert: forged", &format!("http://web:{PORT}/told")]);
    let (client, own) = (cart.spiffe_id(), web.spiffe_id());
    assert_eq!(told, format!("{client}|By={own};URI={client}|\n"));
}

#[test]
fn x_forwarded_for_has_the_clients_address_on_request() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    for how in ["keep", "append", "set"] {
        let Some(mesh) = Mesh::new() else { return };
        let (web, cart) = (mesh.meshed("web", &["--forwarded-for", how]), mesh.meshed("cart", &[]));
        let _nginx = start_nginx(&mesh, &web);
        mesh.serve(&MeshService::new("web", PORT).at(&web), &[&web, &cart]);
        let url = format!("http://web:{PORT}/forwarded");
        let read = cart.run_well("curl", &["-sS", "-H", "x-forwarded-for: 192.0.2.1", &url]);
        let expected = match how {
            "append" => format!("192.0.2.1, {}\n", cart.address()),
            "set" => format!("{}\n", cart.address()),
            _ => "192.0.2.1\n".to_owned(),
        };
        assert_eq!(read, expected, "{how}");
    }
}

#[test]
fn what_is_no_http_is_not_carried_to_a_port_that_is_declared_to_speak_it() {
    if !(is_installed("nginx", "nginx-light") && is_installed("socat", "socat")) {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (web, stranger) = (mesh.meshed("web", &[]), mesh.workload("stranger"));
    let _nginx = start_nginx(&mesh, &web);
    mesh.serve(&MeshService::new("web", PORT).at(&web).app_protocol("http"), &[&web]);
    let say = |bytes: &str| {
        // `shut-none`: a client that sends FIN after its request gets no response.
        let shell = format!("printf '{bytes}' | socat -t 5 - TCP:{}:{PORT},shut-none", web.address());
        stranger.run("bash", &["-c", &shell])
    };
    // The proxy must reject even the first of these texts, although nginx, like most servers, would accept it as a
    // request.
    for bytes in ["\\r\\nGET /hello HTTP/1.0\\r\\n\\r\\n", "get /hello HTTP/1.0\\r\\n\\r\\n", "GET /hel"] {
        let heard = say(bytes);
        assert!(heard.stdout.is_empty(), "{bytes}: {heard:?}");
    }
    let line = web.proxy().wait_for_output(&["declared to speak HTTP", &stranger.address().to_string()]);
    assert!(line.contains("WARN"), "{line}");
    assert!(
        String::from_utf8_lossy(&say("GET /hello HTTP/1.1\\r\\nHost: web\\r\\nConnection: close\\r\\n\\r\\n").stdout)
            .contains("hello from a file")
    );
    // Remove the Service's declaration of a protocol. The proxy then relays bytes that are not HTTP as an opaque
    // connection.
    mesh.serve(&MeshService::new("web", PORT).at(&web), &[&web]);
    assert!(String::from_utf8_lossy(&say("\\r\\nGET /hello HTTP/1.0\\r\\n\\r\\n").stdout).contains("hello"));
}

#[test]
fn a_port_with_a_probe_rejects_bytes_that_are_not_http_unless_it_is_opaque() {
    if !(is_installed("nginx", "nginx-light") && is_installed("socat", "socat")) {
        return;
    }
    let (probe, port) = (format!("{PORT}/hello"), PORT.to_string());
    for is_opaque in [false, true] {
        let Some(mesh) = Mesh::new() else { return };
        let arguments = ["--probe", &probe, "--opaque-ports", &port];
        let web = mesh.meshed("web", if is_opaque { &arguments } else { &arguments[..2] });
        let stranger = mesh.workload("stranger");
        let _nginx = start_nginx(&mesh, &web);
        if is_opaque {
            // The option `--opaque-ports` overrides a Service's declaration: the port stays opaque.
            mesh.serve(&MeshService::new("web", PORT).at(&web).app_protocol("http"), &[&web]);
        }
        let shell =
            format!("printf '\\r\\nGET /hello HTTP/1.0\\r\\n\\r\\n' | socat -t 5 - TCP:{}:{PORT}", web.address());
        let heard = stranger.run("bash", &["-c", &shell]).stdout;
        if is_opaque {
            assert!(String::from_utf8_lossy(&heard).contains("hello"));
        } else {
            assert!(heard.is_empty(), "{heard:?}");
            web.proxy().wait_for_output(&["declared to speak HTTP", &stranger.address().to_string()]);
        }
    }
}

#[test]
fn a_port_that_its_own_proxy_knows_to_speak_http_takes_nothing_else_whatever_a_service_says() {
    if !(is_installed("nginx", "nginx-light") && is_installed("socat", "socat")) {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let web = mesh.meshed("web", &["--http-ports", &PORT.to_string()]);
    let (cart, stranger) = (mesh.meshed("cart", &[]), mesh.workload("stranger"));
    let _nginx = start_nginx(&mesh, &web);
    let service = || MeshService::new("web", PORT).at(&web);
    mesh.serve(&service(), &[&web, &cart]);
    let get = || cart.run("curl", &["-sS", "--max-time", "10", &format!("http://web:{PORT}/hello")]);
    assert_eq!(String::from_utf8_lossy(&get().stdout), "hello from a file\n");

    // Declare the port to be opaque for callers. The caller's proxy then relays the request as opaque bytes through the
    // tunnel, and the server's proxy must reject them.
    mesh.serve(&service().annotated("leno.dev/opaque-ports", &PORT.to_string()), &[&web, &cart]);
    let through_tunnel = get();
    assert!(!through_tunnel.status.success() && through_tunnel.stdout.is_empty(), "{through_tunnel:?}");
    let shell = format!("printf '\\r\\nGET /hello HTTP/1.0\\r\\n\\r\\n' | socat -t 5 - TCP:{}:{PORT}", web.address());
    let heard = stranger.run("bash", &["-c", &shell]);
    assert!(heard.stdout.is_empty(), "{heard:?}");
    web.proxy().wait_for_output(&["declared to speak HTTP", &stranger.address().to_string()]);
}

/// An application that answers each request with the methods and targets of all requests so far. Python's server does
/// not read the content of a request by itself, and reads further requests after a CONNECT request.
const LENIENT: &str = "import http.server, socketserver, sys
seen = []
class Application(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self):
        seen.append(self.command + ' ' + self.path)
        content = '\\n'.join(seen).encode()
        self.send_response(200)
        self.send_header('content-length', str(len(content)))
        self.end_headers()
        self.wfile.write(content)
    do_GET = do_CONNECT = answer
    def log_message(self, *_):
        pass
socketserver.ThreadingTCPServer(('0.0.0.0', int(sys.argv[1])), Application).serve_forever()";

/// Starts the application [`LENIENT`].
fn start_lenient(workload: &Workload) -> Program {
    let program = workload.start("python3", &["-c", LENIENT, &PORT.to_string()]);
    workload.wait_for_port(PORT);
    program
}

/// A client that asks for a tunnel, and sends a request with a forged identity through it. Prints everything that it
/// receives until its connection ends, for at most five seconds.
const TUNNELLER: &str = "import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
received = b''
try:
    s.sendall(b'CONNECT cart:80 HTTP/1.1\\r\\nHost: cart:80\\r\\n\\r\\n')
    received += s.recv(65536)
    s.sendall(b'GET /smuggled HTTP/1.1\\r\\nHost: cart\\r\\nleno-client-id: forged\\r\\n\\r\\n')
    while part := s.recv(65536):
        received += part
except OSError:
    pass
print(received.decode())";

#[test]
fn no_client_hides_requests_in_a_tunnel_that_the_application_grants() {
    let Some(mesh) = Mesh::new() else { return };
    let (web, cart, stranger) = (mesh.meshed("web", &[]), mesh.meshed("cart", &[]), mesh.workload("stranger"));
    let _lenient = start_lenient(&web);
    mesh.serve(&MeshService::new("web", PORT).at(&web), &[&web, &cart]);
    for (client, host) in [(&stranger, web.address().to_string()), (&cart, "web".to_owned())] {
        let heard = client.run_well("python3", &["-c", TUNNELLER, &host, &PORT.to_string()]);
        assert!(heard.starts_with("HTTP/1.1 405 ") && heard.contains("leno-proxy-error: no-tunnel"), "{heard}");
        assert_eq!(heard.matches("HTTP/1.1 ").count(), 1, "{heard}");
    }
    let url = format!("http://{}:{PORT}/seen", web.address());
    assert_eq!(stranger.run_well("curl", &["-sS", &url]), "GET /seen");
}

#[test]
fn content_that_the_application_does_not_read_is_no_request_to_it() {
    let Some(mesh) = Mesh::new() else { return };
    let (web, stranger) = (mesh.meshed("web", &[]), mesh.workload("stranger"));
    let _lenient = start_lenient(&web);
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: web\r\nleno-client-id: forged\r\n\r\n";
    let [content, seen] = ["content", "seen"].map(|path| format!("http://{}:{PORT}/{path}", web.address()));
    let with_content = ["-sS", "-X", "GET", "--data-raw", smuggled, &content];
    assert_eq!(stranger.run_well("curl", &with_content), "GET /content");
    assert_eq!(stranger.run_well("curl", &["-sS", &seen]), "GET /content\nGET /seen");
}

/// A server that sends endlessly on each connection.
const GENEROUS: &str = "import socket, threading
s = socket.create_server(('0.0.0.0', 6379), backlog=1024)
def serve(c):
    try:
        while True:
            c.sendall(bytes(65536))
    except OSError:
        pass
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()";

/// A member of the mesh that opens many streams on one tunnel connection, and grants them no flow-control window.
const HOARDER: &str = "import socket, ssl, struct, sys, time
host, streams, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def frame(kind, flags, stream, payload=b''):
    return struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload
def field(name, value):
    return b'\\x00' + bytes([len(name)]) + name + bytes([len(value)]) + value
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
context.set_alpn_protocols(['h2'])
context.load_cert_chain(directory + '/tls.crt', directory + '/tls.key')
c = context.wrap_socket(socket.create_connection((host, 15008)), server_hostname='6379.leno.internal')
c.sendall(b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + frame(4, 0, 0, struct.pack('>HI', 4, 0)))
block = field(b':method', b'CONNECT') + field(b':authority', (host + ':6379').encode())
for n in range(streams):
    c.sendall(frame(1, 4, 2 * n + 1, block))
answered, rest = 0, b''
while part := c.recv(65536):
    rest += part
    while len(rest) >= 9 and len(rest) >= 9 + int.from_bytes(rest[:3], 'big'):
        kind, rest = rest[3], rest[9 + int.from_bytes(rest[:3], 'big'):]
        answered += kind == 1
        if kind == 1 and answered == streams:
            print('OPEN', answered, flush=True)";

#[test]
fn what_the_streams_of_one_tunnel_leave_unread_is_bounded_together() {
    const STREAMS: usize = 400;
    /// Largest allowed growth of the proxy's memory: 16 MiB for the bytes that all streams of the tunnel may hold,
    /// another 16 MiB for the overhead of allocators, and 8 MiB in reserve.
    const MOST_KIB: u64 = 40 << 10;
    let Some(mesh) = Mesh::new() else { return };
    let (store, member) = (mesh.meshed("store", &[]), mesh.workload("member"));
    let _generous = store.start("python3", &["-c", GENEROUS]);
    store.wait_for_port(6379);
    let directory = mesh.directory().join("member");
    let [authority, out] = [mesh.authority(), directory].map(|path| path.to_str().expect("a plain name").to_owned());
    member.run_well("leno", &["ca", "issue", &authority, &member.identity(), "--out", &out]);
    let resident_kib = || {
        let process = store.admin("/metrics");
        let line = process.lines().find(|line| line.starts_with("process_resident_memory_bytes")).expect("it is told");
        let bytes: f64 = line.rsplit_once(' ').and_then(|(_, bytes)| bytes.parse().ok()).expect("a number");
        bytes as u64 / 1024
    };
    let before = resident_kib();
    let hoarder = member.start("python3", &["-c", HOARDER, &store.address().to_string(), &STREAMS.to_string(), &out]);
    hoarder.wait_for_output(&[&format!("OPEN {STREAMS}")]);
    // Wait until every buffer is full, so that the proxy reads no more from the application.
    let mut held = resident_kib();
    wait_for("no more is read", SOON, || {
        std::thread::sleep(Duration::from_millis(500));
        let now = resident_kib();
        let is_steady = now <= held + 64;
        held = now;
        is_steady.then_some(())
    });
    assert!(held < before + MOST_KIB, "{before} KiB before, {held} KiB with {STREAMS} unread streams");
}

/// A client that opens many connections, and sends one byte on each. To relay the byte, the proxy must open a
/// connection to the server.
const CROWD: &str = "import socket, sys, time
sockets = [socket.create_connection((sys.argv[1], 6379)) for _ in range(int(sys.argv[2]))]
for s in sockets:
    s.sendall(b'\\x00')
time.sleep(1)
print('THERE', flush=True)
time.sleep(600)";

#[test]
fn a_stranger_with_many_opaque_connections_leaves_those_of_members_to_them() {
    if !is_installed("socat", "socat") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let few = ["--limit", "max_unshared_connections_per_endpoint=20"];
    let (store, cart, stranger) = (mesh.meshed("store", &few), mesh.meshed("cart", &[]), mesh.workload("stranger"));
    let _echo = store.start("socat", &["TCP6-LISTEN:6379,fork,reuseaddr,ipv6only=0,backlog=128", "EXEC:cat"]);
    store.wait_for_port(6379);
    mesh.serve(&MeshService::new("store", 6379).at(&store), &[&store, &cart]);
    let crowd = stranger.start("python3", &["-c", CROWD, &store.address().to_string(), "60"]);
    crowd.wait_for_output(&["THERE"]);
    for _ in 0..3 {
        let talk = "exec 3<>/dev/tcp/store/6379; echo hello >&3; head -n 1 <&3";
        assert_eq!(cart.run_well("timeout", &["8", "bash", "-c", talk]), "hello\n");
    }
}

#[test]
fn a_proxy_with_listeners_of_both_families_serves_where_there_is_no_ipv6() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (mut web, stranger) = (mesh.workload("web"), mesh.workload("stranger"));
    web.run_well("sh", &["-ec", "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"]);
    // Use the admin listener that the injector configures for a Pod's proxy.
    web.join(&["--admin", "[::]:4191"]);
    let _nginx = start_nginx(&mesh, &web);
    let url = format!("http://{}:{PORT}/hello", web.address());
    assert_eq!(stranger.run_well("curl", &["-sS", &url]), "hello from a file\n");
}

#[test]
fn probes_and_calls_reach_a_proxy_by_ipv6() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (web, stranger) = (mesh.meshed("web", &["--admin", "[::]:4191"]), mesh.workload("stranger"));
    let _nginx = start_nginx(&mesh, &web);
    for host in [web.address().to_string(), format!("[{}]", web.address_v6())] {
        stranger.run_well("curl", &["-sSf", &format!("http://{host}:4191/ready")]);
        let hello = stranger.run_well("curl", &["-sS", &format!("http://{host}:{PORT}/hello")]);
        assert_eq!(hello, "hello from a file\n");
    }
}

/// A client with 64 addresses of one prefix. From each address, it connects to each port in a loop, and sends the
/// beginning of a TLS handshake. It keeps up to 200 connections to each port open.
const CROWD_OF_ONE_PREFIX: &str = "import socket, sys, time
host, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
held = {port: [] for port in ports}
opened = 0
while True:
    for n in range(1, 65):
        for port in ports:
            s = socket.socket(socket.AF_INET6)
            s.settimeout(1)
            try:
                s.bind(('fd00:bad::%x' % n, 0))
                s.connect((host, port))
                s.sendall(bytes([0x16, 3, 1, 2, 0, 1]))
                held[port].append(s)
                opened += 1
            except OSError:
                s.close()
            if len(held[port]) > 200:
                held[port].pop(0).close()
    if opened > 1000:
        print('THERE', flush=True)
    time.sleep(0.1)";

/// A client that connects, waits until a file exists, and then sends an HTTP request on the same connection.
const SLOW_TO_SPEAK: &str = "import os, socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
print('CONNECTED', flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.02)
s.sendall(b'GET /hello HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')
print(s.makefile('rb').read().decode(), flush=True)";

#[test]
fn a_crowd_with_many_addresses_of_one_ipv6_prefix_takes_no_place_of_others() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    // The proxy accepts 40 connections, which is fewer than the crowd's 64 addresses.
    let few = ["--admin", "[::]:4191", "--limit", "max_inbound_connections=40"];
    let (web, cart) = (mesh.meshed("web", &few), mesh.meshed("cart", &[]));
    let (crowd, stranger) = (mesh.workload("crowd"), mesh.workload("stranger"));
    let _nginx = start_nginx(&mesh, &web);
    // Declare the protocol. Otherwise the proxy would not wait for long for a silent client, because the server might
    // speak first.
    mesh.serve(&MeshService::new("web", PORT).at(&web).app_protocol("http"), &[&web, &cart]);
    web.run_well("ip", &["-6", "route", "add", "fd00:bad::/64", "dev", "eth0"]);
    let addresses = "for n in $(seq 64); do ip -6 address add fd00:bad::$(printf %x $n)/64 dev eth0 nodad; done";
    crowd.run_well("sh", &["-ec", addresses]);
    let (host, port) = (web.address_v6().to_string(), PORT.to_string());
    let go = mesh.directory().join("go");
    let slow = stranger.start("python3", &["-c", SLOW_TO_SPEAK, &host, &port, go.to_str().expect("a plain name")]);
    slow.wait_for_output(&["CONNECTED"]);
    let program = crowd.start("python3", &["-c", CROWD_OF_ONE_PREFIX, &host, "4191", "4143", "15008", &port]);
    program.wait_for_output(&["THERE"]);

    // The slow client's connection must still be open, although it has been silent for longer than any connection of
    // the crowd.
    std::fs::write(&go, "").expect("there is room");
    slow.wait_for_output(&["hello from a file"]);
    for host in [web.address().to_string(), format!("[{host}]")] {
        for _ in 0..10 {
            let probe = format!("http://{host}:4191/ready");
            stranger.run_well("curl", &["-sSf", "--max-time", "5", &probe]);
            let hello = format!("http://{host}:{PORT}/hello");
            assert_eq!(stranger.run_well("curl", &["-sS", "--max-time", "5", &hello]), "hello from a file\n");
        }
    }
    let hello = format!("http://web:{PORT}/hello");
    assert_eq!(cart.run_well("curl", &["-sS", "--max-time", "5", &hello]), "hello from a file\n");
}

/// A server that listens on eight ports, and answers no connection.
const SILENT_PORTS: &str = "import socket, time
listeners = [socket.create_server(('', 7001 + n)) for n in range(8)]
print('LISTENING', flush=True)
time.sleep(600)";

/// A client that calls each port of [`SILENT_PORTS`]. For each call, it prints the status of the answer, or HELD if
/// there is no answer within a second. The calls stay open.
const CALLS_TO_EACH: &str = "import socket, sys, time
held = []
for n in range(8):
    s = socket.create_connection((sys.argv[1], 7001 + n))
    s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
    s.settimeout(1)
    try:
        print(s.recv(12).decode()[9:], flush=True)
    except TimeoutError:
        print('HELD', flush=True)
    held.append(s)
print('ALL', flush=True)
time.sleep(600)";

#[test]
fn callers_of_many_ports_leave_half_of_the_targets_to_the_application() {
    let Some(mesh) = Mesh::new() else { return };
    let (store, stranger) = (mesh.meshed("store", &["--limit", "max_targets=8"]), mesh.workload("stranger"));
    let silent = store.start("python3", &["-c", SILENT_PORTS]);
    silent.wait_for_output(&["LISTENING"]);
    let calls = stranger.start("python3", &["-c", CALLS_TO_EACH, &store.address().to_string()]);
    calls.wait_for_output(&["ALL"]);
    let printed = calls.output();
    let went: Vec<&str> = printed.lines().take(8).collect();
    assert_eq!(went, [["HELD"; 4], ["503"; 4]].concat());
    store.wait_for_access(&[("direction", "inbound"), ("proxy_error", "too-many-targets")]);

    let _server = stranger.start("python3", &["-m", "http.server", "7100"]);
    stranger.wait_for_port(7100);
    let url = format!("http://{}:7100/", stranger.address());
    assert_eq!(store.run_well("curl", &["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url]), "200");

    // When the application is killed, its calls end, and the proxy accepts a call to another port again. This call
    // fails only because nothing listens on the port any more.
    silent.signal(Signal::KILL);
    let last = format!("http://{}:7008/", store.address());
    wait_for("a place for another port", SOON, || {
        let answer = stranger.run_well("curl", &["-sS", "-D", "-", "-o", "/dev/null", &last]);
        answer.contains("leno-proxy-error: connect-failed").then_some(())
    });
}

/// A client that sends a gRPC health check without its message, and prints the answer.
const HEALTH_CHECK_WITHOUT_MESSAGE: &str = "import socket, sys
s = socket.create_connection((sys.argv[1], 7001), 20)
s.sendall(b'POST /grpc.health.v1.Health/Check HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/grpc\\r\\n')
s.sendall(b'Content-Length: 5\\r\\n\\r\\n')
print(s.recv(4096).decode())";

#[test]
fn a_health_check_whose_message_stays_away_is_answered() {
    let Some(mesh) = Mesh::new() else { return };
    let strict = ["--default-inbound-policy", "cluster-authenticated", "--limit", "content_timeout_ms=1000"];
    let (store, stranger) = (mesh.meshed("store", &strict), mesh.workload("stranger"));
    let silent = store.start("python3", &["-c", SILENT_PORTS]);
    silent.wait_for_output(&["LISTENING"]);
    let policy = "apiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: store}\nspec:\n  \
                  targetRef: {kind: ServiceAccount, name: store}\n  allow: []\n  \
                  healthChecks: [/grpc.health.v1.Health/Check]\n";
    mesh.apply("policy", policy, &[&store]);
    let address = store.address().to_string();
    let answer = stranger.run_well("python3", &["-c", HEALTH_CHECK_WITHOUT_MESSAGE, &address]);
    assert!(answer.starts_with("HTTP/1.1 ") && answer.contains("leno-proxy-error: content-late"), "{answer}");
    assert_eq!(store.scrape().sum("leno_abuse_closed_total", &[r#"kind="late_content""#]), 1.0);
}
