//! Taps of other workloads: only a policy that names the tap port and the caller's identity allows a tap.

use std::time::{Duration, Instant};

use leno_tests::mesh::{Mesh, MeshService, Program, Workload, is_installed};
use leno_tests::proxy::Signal;

use super::http1::{PORT, start_nginx};

const TAPS: u16 = 4190;
/// Arguments of a proxy that serves taps to other workloads, as in a Pod.
const SERVES_TAPS: [&str; 2] = ["--tap", "0.0.0.0:4190"];
/// The grace period of a proxy with open taps. The proxy must end in less than half of it.
const GRACE: Duration = Duration::from_secs(30);

/// nginx as the meshed service `web`, whose proxy serves taps; the workload `watch`, which taps `web`; the workload
/// `batch`, which calls `web`; and a client outside of the mesh.
struct Watched {
    web: Workload,
    watch: Workload,
    batch: Workload,
    stranger: Workload,
    _nginx: Program,
    mesh: Mesh,
}

impl Watched {
    fn new() -> Option<Self> {
        if !is_installed("nginx", "nginx-light") {
            return None;
        }
        let mesh = Mesh::new()?;
        let web = mesh.meshed("web", &SERVES_TAPS);
        let [watch, batch] = ["watch", "batch"].map(|name| mesh.meshed(name, &[]));
        let stranger = mesh.workload("stranger");
        let nginx = start_nginx(&mesh, &web);
        for service in [MeshService::new("web", PORT), MeshService::new("web-taps", TAPS)] {
            mesh.serve(&service.at(&web), &[&web, &watch, &batch]);
        }
        Some(Self { web, watch, batch, stranger, _nginx: nginx, mesh })
    }

    fn apply(&self, spec: &str) {
        let head = "apiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: taps}\n";
        let policy = format!("{head}spec: {{targetRef: {{kind: ServiceAccount, name: web}}, {spec}}}\n");
        self.mesh.apply("policy", &policy, &[&self.web]);
    }

    /// Requests the calls in flight. Returns the body of the answer, followed by the HTTP status.
    fn calls(&self, caller: &Workload) -> String {
        let url = format!("http://{}:{TAPS}/calls", self.web.address());
        caller.run_well("curl", &["-sS", "-w", "%{http_code}", &url])
    }

    /// Begins a tap from the workload `watch`, and waits until the proxy serves it.
    fn tap(&self, arguments: &[&str]) -> Program {
        let address = format!("{}:{TAPS}", self.web.address());
        let tap = self.watch.start("leno", &[&["tap", "--admin", &address], arguments].concat());
        self.web.proxy().wait_for_output(&["a tap begins", &self.watch.spiffe_id()]);
        tap
    }
}

const LETS_WATCH_IN: &str = "ports: [4190], allow: [{identities: [ns/default/sa/watch]}]";

#[test]
fn only_an_identity_that_a_policy_of_the_port_names_gets_in() {
    let Some(watched) = Watched::new() else { return };
    let Watched { web, watch, batch, stranger, .. } = &watched;
    for closed in [None, Some("allow: [{identities: ['*']}, {networks: [0.0.0.0/0]}]")] {
        if let Some(spec) = closed {
            watched.apply(spec);
        }
        for caller in [watch, batch] {
            let answer = watched.calls(caller);
            assert!(answer.contains("whose ports name it") && answer.ends_with("403"), "{closed:?}: {answer}");
        }
        let answer = watched.calls(stranger);
        assert!(answer.contains("denied: policy") && answer.ends_with("403"), "{closed:?}: {answer}");
    }
    watched.apply(LETS_WATCH_IN);
    let answer = watched.calls(watch);
    assert!(answer.contains("\"calls\"") && answer.ends_with("200"), "{answer}");
    for caller in [batch, stranger] {
        assert!(watched.calls(caller).ends_with("403"), "{}", caller.name());
    }
    watched.apply("ports: [4190], allow: [{networks: [0.0.0.0/0]}], healthChecks: [/calls]");
    for caller in [watch, stranger] {
        assert!(watched.calls(caller).ends_with("403"), "{}", caller.name());
    }
    // The tap port does not serve the proxy's other pages.
    watched.apply(LETS_WATCH_IN);
    for page in ["config", "metrics", "log-level"] {
        let url = format!("http://{}:{TAPS}/{page}", web.address());
        let status = watch.run_well("curl", &["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url]);
        assert_eq!(status, "404", "{page}");
    }
}

#[test]
fn leno_tap_shows_calls_to_a_workload_whose_policy_lets_it_in_until_the_policy_changes() {
    let Some(watched) = Watched::new() else { return };
    watched.apply(LETS_WATCH_IN);
    let mut tap = watched.tap(&["--direction", "inbound"]);
    watched.batch.run_well("curl", &["-sS", "-o", "/dev/null", &format!("http://web:{PORT}/hello")]);
    tap.wait_for_output(&["GET /hello", "batch", "200"]);
    watched.apply("ports: [4190], allow: [{identities: [ns/default/sa/batch]}]");
    tap.wait(Duration::from_secs(20));
    watched.web.proxy().wait_for_output(&["a tap ended"]);
    assert!(watched.calls(&watched.watch).ends_with("403"));
    // The proxy does not count taps as traffic of the application. But it counts the taps that it denies.
    let scrape = watched.web.scrape();
    let inbound = [r#"direction="inbound""#];
    assert_eq!(scrape.sum("request_total", &inbound), 1.0, "{}", watched.web.admin("/metrics"));
    assert_eq!(scrape.sum("response_total", &inbound), 1.0, "{}", watched.web.admin("/metrics"));
    // The proxy counted two denials: the open tap, which the new policy ended, and the attempt after it.
    assert_eq!(scrape.sum("inbound_http_authz_deny_total", &[r#"target_port="4190""#]), 2.0);
}

#[test]
fn an_open_tap_does_not_delay_the_end_of_the_proxy_even_if_nobody_reads_it() {
    let Some(mut watched) = Watched::new() else { return };
    watched.apply(LETS_WATCH_IN);
    let mut read = watched.tap(&[]);
    let unread = watched.tap(&["--rate", "10000"]);
    unread.signal(Signal::STOP);
    let load = ["-n", "20000", "-c", "4", "--h1", &format!("http://web:{PORT}/{}", "x".repeat(1_000))];
    watched.batch.run_well("h2load", &load);
    let started = Instant::now();
    watched.web.drain_proxy(GRACE);
    read.wait(GRACE);
    assert!(started.elapsed() < GRACE / 2, "{:?}", started.elapsed());
}
