//! TCPRoutes and TLSRoutes choose the server of connections that the mesh does not parse.

use std::collections::BTreeMap;
use std::time::Duration;

use leno_tests::mesh::{Mesh, MeshService, Program, Workload, is_installed};
use leno_tests::proxy::wait_for;

const PORT: u16 = 9000;
/// Longest time until an edit takes effect.
const SOON: Duration = Duration::from_secs(20);
/// Number of connections. If each goes to one of two servers at random, the standard deviation of the number of
/// connections of a server is 5.
const CONNECTIONS: usize = 100;

/// A client, and the servers of two Services, `a` and `b`. The client connects to the Service `front`, which has no
/// server.
struct Fork {
    client: Workload,
    a: Workload,
    b: Workload,
    mesh: Mesh,
}

impl Fork {
    /// Creates the workloads. Returns `None` if this process does not run as root.
    fn new() -> Option<Self> {
        let mesh = Mesh::new()?;
        // Set long timeouts, so that a timeout cannot cause any result of the test.
        let patient = ["--limit", "detect_timeout_ms=60000", "--limit", "server_first_after_ms=60000"];
        let (client, a, b) = (mesh.meshed("client", &patient), mesh.meshed("a", &[]), mesh.meshed("b", &[]));
        mesh.serve(&MeshService::new("a", PORT).at(&a), &[&client]);
        mesh.serve(&MeshService::new("b", PORT).at(&b), &[&client]);
        mesh.serve(&MeshService::new("front", PORT), &[&client]);
        Some(Self { client, a, b, mesh })
    }

    /// Writes a route of `front`.
    fn route(&self, kind: &str, spec: &str) {
        let yaml = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: fork, namespace: default}}\nspec:\n  \
             parentRefs: [{{group: '', kind: Service, name: front}}]\n  {spec}\n"
        );
        self.mesh.apply("route", &yaml, &[&self.client]);
    }

    /// Returns the sum of the route's counter at the client's proxy.
    fn counted(&self, name: &str, labels: &[&str]) -> f64 {
        self.client.scrape().sum(name, &[&[r#"route_name="fork""#], labels].concat())
    }
}

/// Returns a rule with both backends, with these weights.
fn weights(a: usize, b: usize) -> String {
    format!(
        "rules: [{{backendRefs: [{{name: a, port: {PORT}, weight: {a}}}, {{name: b, port: {PORT}, weight: {b}}}]}}]"
    )
}

/// Starts a server that speaks first: it sends its own name.
fn greet(workload: &Workload) -> Program {
    let listen = format!("TCP6-LISTEN:{PORT},fork,reuseaddr,ipv6only=0");
    let program = workload.start("socat", &[&listen, &format!("SYSTEM:echo {}", workload.name())]);
    workload.wait_for_port(PORT);
    program
}

#[test]
fn a_tcp_route_shares_the_connections_of_a_server_that_speaks_first() {
    if !is_installed("socat", "socat") {
        return;
    }
    let Some(fork) = Fork::new() else { return };
    let _servers = [greet(&fork.a), greet(&fork.b)];
    // Open a connection before there is a route. The client sends nothing, because the server speaks first, and the
    // proxy still waits for the client's first bytes. Once a route exists, the connection must continue.
    let early = fork.client.start("socat", &["-u", &format!("TCP:front:{PORT}"), "-"]);
    wait_for("the proxy has accepted a connection", SOON, || {
        let sockets = |arguments: &[&str]| fork.client.run_well("ss", &[&["-Htn"], arguments].concat());
        let is_open = !sockets(&["state", "established", &format!("dport = :{PORT}")]).is_empty();
        let not_accepted = |line: &str| line.split_whitespace().next() != Some("0");
        let is_accepted = !sockets(&["state", "listening", "sport = :4140"]).lines().any(not_accepted);
        (is_open && is_accepted).then_some(())
    });
    fork.route("TCPRoute", &weights(1, 0));
    assert_eq!(early.wait_for_output(&[""]), "a");
    fork.route("TCPRoute", &weights(1, 1));

    let heard = |count: usize| {
        let shell = format!("for i in $(seq {count}); do socat -u TCP:front:{PORT} -; done");
        let mut by_name = BTreeMap::<String, usize>::new();
        for line in fork.client.run_well("bash", &["-c", &shell]).lines() {
            *by_name.entry(line.to_owned()).or_default() += 1;
        }
        by_name
    };
    let halves = heard(CONNECTIONS);
    assert_eq!(halves.values().sum::<usize>(), CONNECTIONS, "{halves:?}");
    // The range is six standard deviations (5 each) around 50.
    assert!(halves.values().all(|share| (20..=80).contains(share)) && halves.len() == 2, "{halves:?}");
    assert_eq!(fork.counted("outbound_tcp_route_open_total", &[]), (CONNECTIONS + 1) as f64);
    assert_eq!(fork.counted("outbound_tcp_route_open_total", &[r#"backend_name="a""#]), (halves["a"] + 1) as f64);
    wait_for("every connection has ended", SOON, || {
        (fork.counted("outbound_tcp_route_close_total", &[r#"error="""#]) == (CONNECTIONS + 1) as f64).then_some(())
    });
    let line = fork.client.wait_for_access(&[("protocol", "TCP"), ("route", "TCPRoute default/fork")]);
    assert_eq!(line["tls"], "true", "{line}");

    fork.route("TCPRoute", &weights(0, 1));
    wait_for("all go to b", SOON, || (heard(5) == BTreeMap::from([("b".to_owned(), 5)])).then_some(()));
    // If all weights are 0, the proxy closes each new connection.
    fork.route("TCPRoute", &weights(0, 0));
    wait_for("none goes anywhere", SOON, || heard(2).is_empty().then_some(()));
}

/// Starts a TLS server in its own directory. The server has one page, `name`, with the workload's name.
fn serve_tls(fork: &Fork, workload: &Workload) -> Program {
    let directory = format!("{}/{}", fork.mesh.directory().to_str().expect("a plain name"), workload.name());
    let make = format!(
        "mkdir {directory} && cd {directory} && echo {} >name && openssl req -x509 -newkey ec -pkeyopt \
         ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=front -keyout key -out crt 2>/dev/null",
        workload.name()
    );
    workload.run_well("sh", &["-ec", &make]);
    let serve = format!("cd {directory} && exec openssl s_server -accept {PORT} -WWW -quiet -key key -cert crt");
    let program = workload.start("sh", &["-ec", &serve]);
    workload.wait_for_port(PORT);
    program
}

#[test]
fn tls_routes_send_connections_by_the_name_of_their_server() {
    let Some(fork) = Fork::new() else { return };
    let _servers = [serve_tls(&fork, &fork.a), serve_tls(&fork, &fork.b)];
    fork.route(
        "TLSRoute",
        &format!(
            "hostnames: [a.example.org]\n  rules: [{{backendRefs: [{{name: a, port: {PORT}}}]}}]\n---\n\
             apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {{name: wide, namespace: default}}\n\
             spec:\n  parentRefs: [{{group: '', kind: Service, name: front}}]\n  hostnames: ['*.example.org']\n  \
             rules: [{{backendRefs: [{{name: b, port: {PORT}}}]}}]"
        ),
    );
    let page = |server: &str| {
        let connect = format!("{server}:{PORT}:front:{PORT}");
        let url = format!("https://{server}:{PORT}/name");
        fork.client.run("curl", &["-sSk", "--max-time", "20", "--connect-to", &connect, &url])
    };
    for (server, expected) in [("a.example.org", "a\n"), ("b.example.org", "b\n"), ("c.b.example.org", "b\n")] {
        let answer = page(server);
        assert_eq!(String::from_utf8_lossy(&answer.stdout), expected, "{server}: {answer:?}");
    }
    // The alert of a server that does not know the name (RFC 6066 section 3).
    let refused = page("example.com");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unrecognized name"), "{refused:?}");
    assert_eq!(fork.counted("outbound_tls_route_open_total", &[r#"backend_name="a""#]), 1.0);

    // A connection without TLS matches no TLSRoute: it goes to the Service itself, which has no server.
    let plain = fork
        .client
        .run_well("curl", &["-s", "-o", "/dev/null", "-w", "%{http_code}", &format!("http://front:{PORT}/")]);
    assert_eq!(plain, "503");
}
