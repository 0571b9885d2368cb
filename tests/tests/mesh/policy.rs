//! Authorization: default inbound policies and AuthorizationPolicies.

use leno_tests::mesh::{Mesh, MeshService, Program, Workload, is_installed};

use super::grpc::{self, start_echo};
use super::http1::{PORT, start_nginx};

const STRICT: [&str; 2] = ["--default-inbound-policy", "cluster-authenticated"];

/// nginx as the meshed service `web`, and its potential callers.
struct Shop {
    web: Workload,
    cart: Workload,
    batch: Workload,
    stranger: Workload,
    _nginx: Program,
    mesh: Mesh,
}

impl Shop {
    fn open(arguments: &[&str]) -> Option<Self> {
        if !is_installed("nginx", "nginx-light") {
            return None;
        }
        let mesh = Mesh::new()?;
        let web = mesh.meshed("web", arguments);
        let [cart, batch] = ["cart", "batch"].map(|name| mesh.meshed(name, &[]));
        let stranger = mesh.workload("stranger");
        let nginx = start_nginx(&mesh, &web);
        mesh.serve(&MeshService::new("web", PORT).at(&web), &[&web, &cart, &batch]);
        Some(Self { web, cart, batch, stranger, _nginx: nginx, mesh })
    }

    /// Puts a policy in force for the service `web`.
    fn apply(&self, spec: &str) {
        let policy = format!(
            "apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata:
  name: web
spec:
  targetRef: {{kind: ServiceAccount, name: web}}
{spec}"
        );
        self.mesh.apply("policy", &policy, &[&self.web, &self.cart, &self.batch]);
    }

    /// Returns the status that a workload gets for a path of `web`.
    fn status(&self, caller: &Workload, path: &str) -> String {
        // A caller outside of the mesh calls the Pod's address: it has no proxy that could route a Service's address.
        let host = if caller.is_meshed() { "web".to_owned() } else { self.web.address().to_string() };
        let url = format!("http://{host}:{PORT}{path}");
        caller.run_well("curl", &["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url])
    }
}

#[test]
fn a_strict_default_lets_in_whoever_has_an_identity_and_nobody_else() {
    let Some(shop) = Shop::open(&STRICT) else { return };
    assert_eq!(shop.status(&shop.cart, "/hello"), "200");
    assert_eq!(shop.status(&shop.stranger, "/hello"), "403");
    let line = shop.web.wait_for_access(&[("path", "/hello"), ("status", "403")]);
    assert_eq!((&line["tls"], &line["proxy_error"]), (&"no_identity".into(), &"denied".into()), "{line}");
    let denied = [r#"authz_kind="default""#, r#"authz_name="cluster-authenticated""#];
    assert_eq!(shop.web.scrape().sum("inbound_http_authz_deny_total", &denied), 1.0);
    // Connect directly to the application's port with TLS as in the mesh, but without a certificate. The policy must
    // treat this client like a client without TLS.
    let to = format!("{PORT}.leno.internal:{PORT}:{}", shop.web.address());
    let url = format!("https://{PORT}.leno.internal:{PORT}/hello");
    let answer = shop.stranger.run_well("curl", &["-sSik", "--http2", "--resolve", &to, &url]);
    assert!(answer.starts_with("HTTP/2 403") && answer.contains("leno-proxy-error: denied"), "{answer}");
    let own = shop.web.spiffe_id();
    shop.web.proxy().wait_for_output(&["WARN", &shop.stranger.address().to_string(), &own]);
}

#[test]
fn a_strict_default_closes_what_is_no_http_and_denies_grpc_in_its_own_words() {
    if !is_installed("socat", "socat") {
        return;
    }
    let Some(mesh) = Mesh::new() else { return };
    let (server, client, stranger) =
        (mesh.meshed("server", &STRICT), mesh.meshed("client", &[]), mesh.workload("stranger"));
    mesh.serve(&MeshService::new("news", 3306).at(&server), &[&server, &client]);
    let _news = server.start("socat", &["TCP-LISTEN:3306,fork,reuseaddr", "SYSTEM:echo for the mesh only"]);
    server.wait_for_port(3306);
    assert_eq!(client.run_well("socat", &["-u", "TCP:news:3306", "-"]), "for the mesh only\n");
    let heard = stranger.run("socat", &["-u", &format!("TCP:{}:3306", server.address()), "-"]);
    assert!(heard.stdout.is_empty(), "{heard:?}");
    let tcp = [r#"authz_name="cluster-authenticated""#];
    assert_eq!(server.scrape().sum("inbound_tcp_authz_deny_total", &tcp), 1.0, "{}", server.admin("/metrics"));

    let _echo = start_echo(&server);
    let address = format!("{}:{}", server.address(), grpc::PORT);
    let denied = stranger.run("grpcurl", &["-plaintext", &address, "list"]);
    let said = String::from_utf8_lossy(&denied.stderr);
    assert!(!denied.status.success() && said.contains("PermissionDenied"), "{said}");
}

#[test]
fn a_policy_names_who_may_call_and_a_change_holds_for_the_next_call() {
    let Some(shop) = Shop::open(&[]) else { return };
    shop.apply("  allow: [{identities: [ns/default/sa/cart]}]\n");
    assert_eq!(shop.status(&shop.cart, "/hello"), "200");
    assert_eq!(shop.status(&shop.batch, "/hello"), "403");
    assert_eq!(shop.status(&shop.stranger, "/hello"), "403");
    let (batch, web) = (shop.batch.spiffe_id(), shop.web.spiffe_id());
    // Only members of the mesh get an answer with the name of the policy that denies the call. Other callers must not
    // get the policy's name or the workload's identity.
    let answer =
        |caller: &Workload, host: &str| caller.run_well("curl", &["-sSi", &format!("http://{host}:{PORT}/hello")]);
    let told = answer(&shop.batch, "web");
    assert!(told.contains(&web) && told.contains("AuthorizationPolicy default/web"), "{told}");
    let told = answer(&shop.stranger, &shop.web.address().to_string());
    assert!(told.contains("denied: policy") && !told.contains("spiffe") && !told.contains("default/web"), "{told}");
    shop.web.proxy().wait_for_output(&["WARN", &batch, &web]);
    let line = shop.web.wait_for_access(&[("status", "403"), ("client_id", &batch)]);
    assert_eq!(line["tls"], "true", "{line}");
    // The caller's own proxy records which proxy denied the call.
    shop.batch.wait_for_access(&[("status", "403"), ("server_id", &web)]);
    let denied = [r#"authz_kind="authorizationpolicy""#, r#"authz_name="default/web""#];
    assert_eq!(shop.web.scrape().sum("inbound_http_authz_deny_total", &denied), 4.0);

    shop.apply("  allow: [{identities: [ns/default/sa/batch]}]\n");
    assert_eq!(shop.status(&shop.cart, "/hello"), "403");
    assert_eq!(shop.status(&shop.batch, "/hello"), "200");
}

#[test]
fn networks_let_callers_in_without_an_identity_and_health_checks_are_for_everybody() {
    let Some(shop) = Shop::open(&STRICT) else { return };
    let network = format!("  allow: [{{networks: [{}]}}]\n", shop.stranger.address());
    shop.apply(&format!("{network}  healthChecks: [/healthz]\n"));
    assert_eq!(shop.status(&shop.stranger, "/hello"), "200");
    assert_eq!(shop.status(&shop.cart, "/hello"), "403");
    assert_eq!(shop.status(&shop.cart, "/healthz"), "200");
    let other = shop.mesh.workload("other");
    assert_eq!(shop.status(&other, "/healthz"), "200");
    for path in ["/hello", "/healthz/more", "/%68ealthz"] {
        assert_eq!(shop.status(&other, path), "403", "{path}");
    }
}

#[test]
fn a_policy_in_audit_mode_tells_and_does_nothing() {
    let Some(shop) = Shop::open(&[]) else { return };
    shop.apply("  mode: Audit\n  allow: [{identities: [ns/default/sa/cart]}]\n");
    assert_eq!(shop.status(&shop.cart, "/hello"), "200");
    assert_eq!(shop.status(&shop.batch, "/hello"), "200");
    let line = shop.web.proxy().wait_for_output(&["audited", &shop.batch.spiffe_id(), &shop.web.spiffe_id()]);
    assert!(line.contains("default/web"), "{line}");
    assert!(!shop.web.log().contains(&shop.cart.spiffe_id()), "{}", shop.web.log());
}

#[test]
fn a_kubelets_probes_are_let_in_under_deny_and_nothing_else_is() {
    let [plain, verbose] = ["/healthz", "/healthz?verbose"].map(|target| format!("{PORT}{target}"));
    let arguments = ["--default-inbound-policy", "deny", "--probe", &plain, "--probe", &verbose];
    let Some(shop) = Shop::open(&arguments) else { return };
    // A kubelet is outside of the mesh. Its TCP check only opens a connection.
    let is_let_in = |shop: &Shop| {
        assert_eq!(shop.status(&shop.stranger, "/healthz"), "200");
        assert_eq!(shop.status(&shop.stranger, "/healthz?verbose"), "200");
        for path in ["/hello", "/", "/healthz/", "/healthz/../hello", "//healthz", "/healthz?verbose&other"] {
            assert_eq!(shop.status(&shop.stranger, path), "403", "{path}");
        }
        let url = format!("http://{}:{PORT}/healthz", shop.web.address());
        let post = ["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", &url];
        assert_eq!(shop.stranger.run_well("curl", &post), "403");
        let connect = format!("TCP:{}:{PORT},connect-timeout=5", shop.web.address());
        if is_installed("socat", "socat") {
            shop.stranger.run_well("socat", &["-u", "/dev/null", &connect]);
        }
    };
    is_let_in(&shop);
    shop.apply("  allow: [{identities: [ns/default/sa/cart]}]\n");
    assert_eq!(shop.status(&shop.cart, "/hello"), "200");
    is_let_in(&shop);
    // The proxy counts probes and calls separately. The number of calls includes denied calls.
    let counted = |why: &str| shop.web.scrape().sum("request_total", &[r#"direction="inbound""#, why]);
    assert_eq!(counted(r#"no_tls_reason="probe""#), 4.0, "{}", shop.web.admin("/metrics"));
    assert_eq!(counted(r#"no_tls_reason="no_tls_from_remote""#), 14.0, "{}", shop.web.admin("/metrics"));
}
