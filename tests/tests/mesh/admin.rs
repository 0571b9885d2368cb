//! Admin endpoints that listen on every address, as in Pods. Other Pods can read no private page from the endpoints,
//! and cannot keep kubelets from using the endpoints.

use std::time::Duration;

use leno_tests::mesh::{Mesh, Workload};
use leno_tests::programs;

/// Arguments for listening on every address, as in a Pod.
const EVERYWHERE: [&str; 2] = ["--admin", "0.0.0.0:4191"];
/// The control plane's admin port, which is behind the proxy of the control plane's Pod.
const CONTROL_ADMIN: u16 = 15014;

/// Largest median time of a kubelet's probe.
const PROBE_MAX: Duration = Duration::from_millis(100);
/// Time for which kubelets wait for an answer, by default.
const KUBELET_TIMEOUT: Duration = Duration::from_secs(1);

/// A client that opens 300 connections, and sends a request without its body on each connection. It prints a line when
/// all connections are open. Then, in a loop, it replaces the oldest connection.
const ATTACK: &str = "import socket, sys, time
def attack():
    s = socket.create_connection((sys.argv[1], 4191), 5)
    s.sendall(b'PUT /log-level HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 100\\r\\n\\r\\n')
    return s
held = [attack() for _ in range(300)]
print('FULL', flush=True)
while True:
    held.pop(0).close()
    held.append(attack())
    time.sleep(0.001)";

/// Makes a request. Returns the HTTP status and the body of the answer.
fn ask(client: &Workload, url: &str, arguments: &[&str]) -> (String, String) {
    let output = client.run("curl", &[&["-sS", "--max-time", "1", "-w", "\n%{http_code}", url], arguments].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or_else(|| panic!("{url}: {}", programs::text(&output)));
    (status.to_owned(), body.to_owned())
}

/// Makes a probe, which must succeed, and returns the time that it took.
fn probe(client: &Workload, url: &str) -> Duration {
    let arguments = ["-sS", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code} %{time_total}", url];
    let printed = client.run_well("curl", &arguments);
    let (status, seconds) = printed.split_once(' ').expect("two words");
    assert_eq!(status, "200", "{} of {url}", client.name());
    Duration::from_secs_f64(seconds.parse().expect("a number"))
}

#[test]
fn callers_from_elsewhere_see_and_change_nothing_private() {
    let Some(mesh) = Mesh::new() else { return };
    let (server, member) = (mesh.meshed("server", &EVERYWHERE), mesh.meshed("member", &[]));
    let stranger = mesh.workload("stranger");
    // Connections to CONTROL_ADMIN are redirected to the server's proxy, which opens its own connections to the control
    // plane. So the control plane does not see the callers' addresses.
    let manifests = mesh.manifests();
    let at = format!("0.0.0.0:{CONTROL_ADMIN}");
    let manifests = manifests.to_str().expect("a path");
    let _control = server.start("leno-control", &["--config", manifests, "--xds", "127.0.0.1:0", "--admin", &at]);
    server.wait_for_port(CONTROL_ADMIN);

    for (port, private) in [(4191, "config"), (4191, "balancer"), (4191, "limits"), (CONTROL_ADMIN, "clients")] {
        for client in [&stranger, &member] {
            let page = |page: &str| ask(client, &format!("http://{}:{port}/{page}", server.address()), &[]);
            for public in ["live", "ready", "metrics"] {
                assert_eq!(page(public).0, "200", "{}: {port}/{public}", client.name());
            }
            for private in [private, "log-level", ""] {
                let (status, body) = page(private);
                assert!(
                    status == "403" && body.contains("loopback only"),
                    "{}: {port}/{private}: {body}",
                    client.name()
                );
            }
            let url = format!("http://{}:{port}/log-level", server.address());
            assert_eq!(ask(client, &url, &["-X", "PUT", "-d", "off"]).0, "403", "{}: {port}", client.name());
        }
        assert_eq!(ask(&server, &format!("http://127.0.0.1:{port}/{private}"), &[]).0, "200", "{port}/{private}");
        let levels = ask(&server, &format!("http://127.0.0.1:{port}/log-level"), &[]);
        assert!(levels.0 == "200" && levels.1.starts_with("info"), "{levels:?}");
    }
}

#[test]
fn a_change_of_the_log_levels_is_in_the_log_whatever_they_are() {
    let Some(mesh) = Mesh::new() else { return };
    let server = mesh.meshed("server", &[]);
    for (from, to) in [("info", "off"), ("off", "error"), ("error", "info")] {
        let url = "http://127.0.0.1:4191/log-level";
        assert_eq!(ask(&server, url, &["-X", "PUT", "-d", to]).0, "200");
        server.proxy().wait_for_output(&["WARN", &format!("from=\"{from}\""), &format!("to=\"{to}\"")]);
    }
}

#[test]
fn probes_are_answered_while_a_neighbour_fills_the_admin_port() {
    let Some(mesh) = Mesh::new() else { return };
    let server = mesh.meshed("server", &EVERYWHERE);
    let (attacker, kubelet) = (mesh.workload("attacker"), mesh.workload("kubelet"));
    let address = server.address().to_string();
    let attack = attacker.start("python3", &["-c", ATTACK, &address]);
    attack.wait_for_output(&["FULL"]);
    // Probe from another address, and from the attacker's own address.
    for client in [&kubelet, &attacker] {
        let pages = ["live", "ready"].into_iter().cycle().take(20);
        let mut took: Vec<_> = pages.map(|page| probe(client, &format!("http://{address}:4191/{page}"))).collect();
        took.sort_unstable();
        // Check the median and the 90th percentile, and not every probe: on a busy machine, any program may stall for a
        // second.
        let name = client.name();
        assert!(took[took.len() / 2] < PROBE_MAX && took[took.len() * 9 / 10] < KUBELET_TIMEOUT, "{name}: {took:?}");
    }
}
