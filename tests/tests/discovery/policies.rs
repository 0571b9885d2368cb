//! Policies come from the control plane, and stay in force while the control plane does not run.

use std::net::SocketAddr;
use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::Client;
use leno_tests::manifests::Service;
use leno_tests::programs;
use leno_tests::proxy::{Proxy, free_address, wait_for};
use leno_tests::xds::{Authority, Control};

use super::{SOON, call};

const CART: &str = "cart.default:50051";
/// The result of a call: the gRPC status, and the proxy's error.
type Outcome = (Option<u8>, Option<String>);

/// The Service `cart` behind a proxy of the workload `ns/shop/sa/cart`, and a control plane that accepts only members
/// of the mesh.
struct Shop {
    authority: Authority,
    control: Control,
    backend: Backend,
    inbound: SocketAddr,
}

impl Shop {
    async fn open() -> Self {
        let (authority, backend, inbound) = (Authority::new(), Backend::start().await, free_address());
        let service = Service::new("cart", &[backend.address()])
            .endpoint_annotated(backend.address(), "leno.dev/identity", "ns/shop/sa/cart")
            .endpoint_annotated(backend.address(), "leno.dev/inbound-port", &inbound.port().to_string());
        let identity = ["--identity", "ns/leno/sa/leno-control", "--issuer", &authority.path("")];
        let control = Control::start_with(&[service], &identity);
        Self { authority, control, backend, inbound }
    }

    /// Writes a policy of `cart` that allows one workload.
    fn allow(&self, workload: &str) {
        let policy = format!(
            "apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: only-{workload}, namespace: shop}}
spec:
  targetRef: {{kind: ServiceAccount, name: cart}}
  allow: [{{identities: [ns/shop/sa/{workload}]}}]
"
        );
        self.control.directory().write("policy.yaml", &policy);
    }

    /// Starts the proxy of a calling workload.
    fn caller(&self, name: &str) -> Proxy {
        let (inbound, tunnel) = (free_address().to_string(), free_address().to_string());
        let arguments = [&self.identity(name)[..], &words(["--inbound", &inbound, "--tunnel", &tunnel])].concat();
        start(|arguments| Proxy::start_asking(self.control.xds(), arguments), &arguments)
    }

    /// Starts the proxy in front of `cart`, and does not wait until the proxy is ready.
    fn launch_cart(&self) -> Proxy {
        let (inbound, tunnel) = (self.inbound.to_string(), free_address().to_string());
        let own = words(["--inbound", &inbound, "--tunnel", &tunnel, "--limit", "discovery_timeout_ms=500"]);
        let arguments = [&self.identity("cart")[..], &own].concat();
        start(|arguments| Proxy::start_asking_early(self.control.xds(), arguments), &arguments)
    }

    fn identity(&self, name: &str) -> [String; 4] {
        words(["--identity", &format!("ns/shop/sa/{name}"), "--issuer", &self.authority.path("")])
    }
}

fn words<const N: usize>(words: [&str; N]) -> [String; N] {
    words.map(str::to_owned)
}

fn start(start: impl FnOnce(&[&str]) -> Proxy, arguments: &[String]) -> Proxy {
    start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Makes calls until a call has this result.
fn wait_for_outcome(client: &Client, expected: &Outcome) {
    wait_for(&format!("{expected:?}"), SOON, || {
        let runtime = tokio::runtime::Handle::current();
        let outcome = tokio::task::block_in_place(|| runtime.block_on(call(client)));
        (outcome == *expected).then_some(())
    });
}

fn wait_until_ready(proxy: &Proxy) {
    wait_for("it is ready", SOON, || proxy.get("/ready").is_ok_and(|(status, _)| status == 200).then_some(()));
}

fn allowed() -> Outcome {
    (Some(0), None)
}

fn denied() -> Outcome {
    (Some(7), Some("denied".to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_enforced_and_followed_and_hold_while_the_control_plane_is_gone() {
    let mut shop = Shop::open().await;
    shop.allow("web");
    let cart = shop.launch_cart();
    wait_until_ready(&cart);
    let config = |proxy: &Proxy| proxy.get("/config").expect("the admin listener answers").1;
    wait_for("the policy is known", SOON, || config(&cart).contains("only-web").then_some(()));
    let (web_proxy, batch_proxy) = (shop.caller("web"), shop.caller("batch"));
    assert!(!config(&web_proxy).contains("only-web"), "who is not selected does not hear of it");
    let (web, batch) =
        (Client::connect(web_proxy.outbound(), CART).await, Client::connect(batch_proxy.outbound(), CART).await);
    assert_eq!((call(&web).await, call(&batch).await), (allowed(), denied()));
    let url = format!("http://{}/", batch_proxy.outbound());
    let curl = ["-sS", "-i", "--max-time", "10", "-H", &format!("host: {CART}"), &url];
    let answer = programs::run_well("curl", &curl, Duration::from_secs(15));
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("leno-proxy-error: denied"), "{answer}");

    shop.allow("batch");
    wait_for_outcome(&batch, &allowed());
    assert_eq!(call(&web).await, denied());

    shop.control.kill();
    let taken = shop.backend.calls();
    for _ in 0..20 {
        assert_eq!((call(&web).await, call(&batch).await), (denied(), allowed()));
    }
    assert_eq!(shop.backend.calls() - taken, 20);

    shop.control.directory().remove("policy.yaml");
    shop.control.restart();
    wait_for_outcome(&web, &allowed());
    assert!(!config(&cart).contains("only-batch"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_was_not_told_who_may_call_is_not_ready_and_lets_nobody_in() {
    let mut shop = Shop::open().await;
    let cart = shop.launch_cart();
    wait_until_ready(&cart);
    let web_proxy = shop.caller("web");
    let web = Client::connect(web_proxy.outbound(), CART).await;
    assert_eq!(call(&web).await, allowed());

    shop.control.kill();
    drop(cart);
    let cart = shop.launch_cart();
    wait_for("it runs", SOON, || cart.get("/live").ok());
    let (status, why) = cart.get("/ready").expect("the admin listener answers");
    assert_eq!((status, why.as_str()), (503, "waiting for the control plane: its policies\n"));
    let taken = shop.backend.calls();
    wait_for_outcome(&web, &(Some(14), Some("policies-unknown".to_owned())));
    assert_eq!(shop.backend.calls(), taken);

    shop.control.restart();
    wait_until_ready(&cart);
    wait_for_outcome(&web, &allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_cannot_be_read_denies_after_a_restart_and_until_it_is_mended() {
    let mut shop = Shop::open().await;
    shop.allow("web");
    let cart = shop.launch_cart();
    wait_until_ready(&cart);
    let web_proxy = shop.caller("web");
    let web = Client::connect(web_proxy.outbound(), CART).await;
    wait_for_outcome(&web, &allowed());

    // The new version of the policy is invalid, so its last valid version stays in force, until the control plane
    // restarts.
    let wrong = "apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: only-web, namespace: shop}
spec:
  targetRef: {kind: ServiceAccount, name: cart}
  allow: [{identities: [shop/web]}]
";
    shop.control.directory().write("policy.yaml", wrong);
    wait_for("the mistake is seen", SOON, || shop.control.log().contains("\"shop/web\" is not").then_some(()));
    for _ in 0..20 {
        assert_eq!(call(&web).await, allowed());
    }

    shop.control.kill();
    shop.control.restart();
    wait_for_outcome(&web, &denied());
    let config = cart.get("/config").expect("the admin listener answers").1;
    assert!(config.contains("\"Unreadable\""), "{config}");
    let log = "AuthorizationPolicy shop/only-web cannot be read";
    cart.wait_for_log_within(&[log], SOON);

    shop.allow("web");
    wait_for_outcome(&web, &allowed());
}
