//! Third-party xDS clients with a real `leno-control`.

mod policies;

use std::net::SocketAddr;
use std::time::Duration;

use leno_tests::backend::Backend;
use leno_tests::client::Call;
use leno_tests::client::Client;
use leno_tests::manifests::{ECHO, Service};
use leno_tests::proxy::{Proxy, free_address, wait_for};
use leno_tests::xds::{Authority, Companion, Control, Envoy, Library, XdsClient};

use crate::crowds::is_grpc_java_there;

/// The method that every backend answers.
const UNARY: &str = "/leno.echo.v1.Echo/Unary";
/// Longest time until an edit takes effect.
const SOON: Duration = Duration::from_secs(20);

/// A route that sends half of the calls to `echo` to the Service `other`.
const HALF: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: half, namespace: default}
spec:
  parentRefs: [{group: '', kind: Service, name: echo, port: 50051}]
  rules:
  - backendRefs: [{name: echo, port: 50051, weight: 1}, {name: other, port: 50051, weight: 1}]
";

/// Runs `calls`, and returns the number of calls that each backend received meanwhile.
fn took(backends: &[&Backend], calls: impl FnOnce()) -> Vec<u64> {
    let before: Vec<u64> = backends.iter().map(|backend| backend.calls()).collect();
    calls();
    backends.iter().zip(before).map(|(backend, before)| backend.calls() - before).collect()
}

/// Runs `call` repeatedly, until exactly the expected backends get calls in one run.
fn wait_until_used(backends: &[&Backend], expected: &[bool], mut call: impl FnMut()) {
    wait_for(&format!("calls go to {expected:?}"), SOON, || {
        let took = took(backends, &mut call);
        took.iter().map(|took| *took > 0).eq(expected.iter().copied()).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_go_finds_and_follows_endpoints_without_a_proxy() {
    let backends = [Backend::start().await, Backend::start().await, Backend::start().await];
    let all = backends.each_ref();
    let [a, b, c] = all.map(Backend::address);
    let control = Control::start(&[Service::echo(&[a, b, c])]);
    tokio::task::block_in_place(|| {
        let mut client = XdsClient::start(&control, "go", ECHO);
        let spread = took(&all, || assert_eq!(client.call(UNARY, 300), "OK=300"));
        assert!(spread.iter().all(|took| *took >= 30), "some server was hardly used: {spread:?}");

        control.directory().put(&Service::echo(&[a, c]));
        wait_until_used(&all, &[true, false, true], || assert_eq!(client.call(UNARY, 50), "OK=50"));
        control.directory().put(&Service::echo(&[a, b, c]));
        wait_until_used(&all, &[true, true, true], || assert_eq!(client.call(UNARY, 50), "OK=50"));

        let page = control.client("go").expect("it is connected");
        assert_eq!((&page["variant"], &page["dialect"]), (&"state-of-the-world".into(), &"grpc".into()));
        assert!(!page.to_string().contains("refused"), "{page}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_go_follows_weighted_routes() {
    let (echo, other) = (Backend::start().await, Backend::start().await);
    let control = Control::start(&[Service::echo(&[echo.address()]), Service::new("other", &[other.address()])]);
    tokio::task::block_in_place(|| {
        let mut client = XdsClient::start(&control, "go", "echo.default.svc.cluster.local:50051");
        assert_eq!(took(&[&echo, &other], || assert_eq!(client.call(UNARY, 20), "OK=20")), [20, 0]);

        control.directory().write("half.yaml", HALF);
        // While grpc-go applies a new cluster, a call may see the new state of the resolver and the old state of the
        // balancer ("unknown cluster selected"). So the results of these calls are not checked.
        wait_until_used(&[&echo, &other], &[true, true], || drop(client.call(UNARY, 50)));
        let spread = took(&[&echo, &other], || assert_eq!(client.call(UNARY, 400), "OK=400"));
        assert!(spread.iter().all(|took| *took >= 120), "it is not half: {spread:?}");

        control.directory().remove("half.yaml");
        wait_until_used(&[&echo, &other], &[true, false], || drop(client.call(UNARY, 50)));
        assert_eq!(client.call(UNARY, 50), "OK=50");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_go_is_not_held_up_by_a_backend_that_does_not_exist() {
    let echo = Backend::start().await;
    let control = Control::start(&[Service::echo(&[echo.address()])]);
    control.directory().write("half.yaml", HALF);
    tokio::task::block_in_place(|| {
        let mut client = XdsClient::start(&control, "go", ECHO);
        let met = client.call(UNARY, 100);
        assert!(met.starts_with("OK=") && met.contains(" Unavailable=") && !met.contains("Deadline"), "{met}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_go_is_told_at_once_of_a_service_that_comes_later() {
    let echo = Backend::start().await;
    let control = Control::start(&[]);
    tokio::task::block_in_place(|| {
        let mut client = XdsClient::start(&control, "go", ECHO);
        control.directory().put(&Service::echo(&[echo.address()]));
        assert_eq!(client.call(UNARY, 5), "OK=5");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_is_told_everything_and_follows_changes() {
    let backends = [Backend::start().await, Backend::start().await];
    let other = Backend::start().await;
    let all = [&backends[0], &backends[1], &other];
    let [a, b] = backends.each_ref().map(Backend::address);
    let elsewhere = Service::new("other", &[other.address()]);
    let control = Control::start(&[Service::echo(&[a, b]).annotated("leno.dev/balancer", "round-robin"), elsewhere]);
    let envoy = tokio::task::block_in_place(|| Envoy::start(&control, "envoy"));
    let client = Client::connect(envoy.outbound(), ECHO).await;
    let call = async |count: u32| {
        for _ in 0..count {
            let answer = client.call(&Call::new("Echo"), b"hello").await;
            assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
        }
    };
    let runtime = tokio::runtime::Handle::current();
    let calls = |count| tokio::task::block_in_place(|| runtime.block_on(call(count)));

    assert_eq!(took(&all, || calls(40)), [20, 20, 0], "each in turn");
    control.directory().put(&Service::echo(&[b]));
    wait_until_used(&all, &[false, true, false], || calls(10));
    control.directory().put(&Service::echo(&[a, b]));
    wait_until_used(&all, &[true, true, false], || calls(20));
    control.directory().write("half.yaml", HALF);
    wait_until_used(&all, &[true, true, true], || calls(30));
    control.directory().remove("half.yaml");
    wait_until_used(&all, &[true, true, false], || calls(20));

    let page = control.client("envoy").expect("it is connected");
    assert_eq!((&page["variant"], &page["dialect"]), (&"delta".into(), &"envoy".into()));
    assert!(!page.to_string().contains("refused"), "{page}");
    let stats = envoy.get("/stats?filter=update_rejected").expect("Envoy answers");
    let mut counts = stats.lines().filter(|line| line.contains("update_rejected")).peekable();
    assert!(counts.peek().is_some() && counts.all(|line| line.ends_with(": 0")), "{stats}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_takes_a_listener_for_each_address_of_a_service_whatever_it_speaks() {
    let at = |address: &str| address.parse().expect("an address");
    let services = [
        Service::new("echo", &[]).at(at("10.96.0.10:50051")),
        Service::new("mysql", &[]).at(at("10.96.0.11:3306")),
        Service::new("web", &[]).at(at("[fd00::12]:80")),
    ];
    let control = Control::start(&services);
    let envoy = tokio::task::block_in_place(|| Envoy::start(&control, "envoy"));
    let listeners = envoy.get("/listeners").expect("Envoy answers");
    for address in ["10.96.0.10:50051", "10.96.0.11:3306", "[fd00::12]:80"] {
        assert!(listeners.contains(address), "{address} is not in {listeners}");
    }
    let page = control.client("envoy").expect("it is connected");
    assert!(!page.to_string().contains("refused"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_takes_a_listener_with_routes_of_connections_and_follows_them() {
    let at = |address: &str| address.parse().expect("an address");
    let services =
        [Service::new("db", &[]).at(at("10.96.0.10:5432")), Service::new("vault", &[]).at(at("10.96.0.11:443"))];
    let control = Control::start(&services);
    let route = |kind: &str, service: &str, spec: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {service}}}\nspec:\n  \
             parentRefs: [{{group: '', kind: Service, name: {service}}}]\n  {spec}\n"
        )
    };
    let to = |service: &str, port: u16| {
        format!("{{backendRefs: [{{name: {service}, port: {port}}}, {{name: nobody, port: 1}}]}}")
    };
    control.directory().write("route-db.yaml", &route("TCPRoute", "db", &format!("rules: [{}]", to("db", 5432))));
    let names = format!("hostnames: [a.example.org, '*.example.org']\n  rules: [{}]", to("vault", 443));
    control.directory().write("route-vault.yaml", &route("TLSRoute", "vault", &names));
    let envoy = tokio::task::block_in_place(|| Envoy::start(&control, "envoy"));
    let shows = |words: &[&str]| {
        wait_for(&format!("Envoy has {words:?}"), SOON, || {
            let config = envoy.get("/config_dump?resource=dynamic_listeners")?;
            words.iter().all(|word| config.contains(word)).then_some(())
        });
    };
    tokio::task::block_in_place(|| {
        shows(&[
            "weighted_clusters",
            "TCPRoute default/db",
            "TLSRoute default/vault",
            "*.example.org",
            "tls_inspector",
        ]);
        control
            .directory()
            .write("route-vault.yaml", &route("TLSRoute", "vault", &names.replace("a.example", "b.example")));
        shows(&["b.example.org"]);
    });
    let page = control.client("envoy").expect("it is connected");
    assert!(!page.to_string().contains("refused"), "{page}");
}

/// Returns the Service `echo` with one endpoint, behind a proxy at `inbound`.
fn meshed(endpoint: SocketAddr, inbound: SocketAddr) -> Service {
    Service::echo(&[endpoint]).endpoint_annotated(endpoint, "leno.dev/identity", "ns/shop/sa/echo").endpoint_annotated(
        endpoint,
        "leno.dev/inbound-port",
        &inbound.port().to_string(),
    )
}

/// Starts the proxy of the endpoint of [`meshed`].
fn proxy_of(service: &Service, inbound: SocketAddr, authority: &Authority) -> Proxy {
    let (at, tunnel) = (inbound.to_string(), free_address().to_string());
    let identity = ["--identity", "ns/shop/sa/echo", "--issuer", &authority.path("")];
    Proxy::start_with(
        free_address(),
        std::slice::from_ref(service),
        &[&["--inbound", &at, "--tunnel", &tunnel], &identity[..]].concat(),
    )
}

/// Returns the number of calls that the proxy received from `shop/web` over mutual TLS.
fn secure_calls(proxy: &Proxy) -> usize {
    let (_, metrics) = proxy.get("/metrics").expect("the proxy answers");
    let is_secure = |line: &&str| {
        line.starts_with("response_total{direction=\"inbound\"")
            && line.contains("client_id=\"spiffe://cluster.local/ns/shop/sa/web\"")
    };
    let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<usize>().ok());
    metrics.lines().filter(is_secure).filter_map(count).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_reaches_a_server_behind_a_proxy_and_the_control_plane_by_mutual_tls() {
    let (backend, inbound, authority) = (Backend::start().await, free_address(), Authority::new());
    let service = meshed(backend.address(), inbound);
    let proxy = proxy_of(&service, inbound, &authority);
    let identity = ["--identity", "ns/leno/sa/leno-control", "--issuer", &authority.path("")];
    let control = Control::start_with(std::slice::from_ref(&service), &identity);
    let options = authority.options();
    let options = options.each_ref().map(String::as_str);
    let envoy = tokio::task::block_in_place(|| Envoy::start_with(&control, "envoy", &options));
    let client = Client::connect(envoy.outbound(), ECHO).await;
    for _ in 0..5 {
        let answer = client.call(&Call::new("Echo"), b"hello").await;
        assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
    }
    assert_eq!(secure_calls(&proxy), 5);
    let page = control.client("envoy").expect("it is connected");
    assert_eq!(
        (&page["identity"], &page["namespace"]),
        (&"spiffe://cluster.local/ns/shop/sa/web".into(), &"shop".into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_go_reaches_a_server_behind_a_proxy_by_mutual_tls_with_no_proxy_of_its_own() {
    let (backend, inbound, authority) = (Backend::start().await, free_address(), Authority::new());
    let service = meshed(backend.address(), inbound);
    let proxy = proxy_of(&service, inbound, &authority);
    let control = Control::start(std::slice::from_ref(&service));
    let options = authority.options();
    let options = options.each_ref().map(String::as_str);
    tokio::task::block_in_place(|| {
        let mut client = XdsClient::start_with(&control, "go", ECHO, &options);
        assert_eq!(client.call(UNARY, 5), "OK=5");
    });
    assert_eq!(secure_calls(&proxy), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_go_reaches_the_control_plane_and_a_meshed_server_with_the_files_that_leno_proxy_writes() {
    reaches_both_with_the_files_that_leno_proxy_writes(Library::Go).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_java_reaches_the_control_plane_and_a_meshed_server_with_the_files_that_leno_proxy_writes() {
    if is_grpc_java_there() {
        reaches_both_with_the_files_that_leno_proxy_writes(Library::Java).await;
    }
}

async fn reaches_both_with_the_files_that_leno_proxy_writes(library: Library) {
    let (backend, inbound, authority) = (Backend::start().await, free_address(), Authority::new());
    let service = meshed(backend.address(), inbound);
    let proxy = proxy_of(&service, inbound, &authority);
    let identity = ["--identity", "ns/leno/sa/leno-control", "--issuer", &authority.path("")];
    let named = [&identity[..], &["--dns-name", "localhost"]].concat();
    let control = Control::start_with(std::slice::from_ref(&service), &named);
    tokio::task::block_in_place(|| {
        let companion = Companion::start(&control, &authority, "shop/web-1", "10s");
        let first = companion.read("tls.crt");
        let mut client = XdsClient::on(library, ECHO, &companion.path("bootstrap.json"));
        assert_eq!(client.call(UNARY, 5), "OK=5");
        let page = control.client("shop/web-1").expect("it is connected");
        assert_eq!(page["identity"], "spiffe://cluster.local/ns/shop/sa/web");

        wait_for("a new certificate", SOON, || (companion.read("tls.crt") != first).then_some(()));
        assert_eq!(client.call(UNARY, 5), "OK=5");
    });
    assert_eq!(secure_calls(&proxy), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_go_does_not_believe_a_control_plane_without_its_name_and_is_not_let_in_without_a_certificate() {
    let (backend, authority) = (Backend::start().await, Authority::new());
    let identity = ["--identity", "ns/leno/sa/leno-control", "--issuer", &authority.path("")];
    let nameless = Control::start_with(&[Service::echo(&[backend.address()])], &identity);
    let named = [&identity[..], &["--dns-name", "localhost"]].concat();
    let control = Control::start_with(&[Service::echo(&[backend.address()])], &named);
    tokio::task::block_in_place(|| {
        let companion = Companion::start(&nameless, &authority, "shop/web-1", "24h");
        let mut client = XdsClient::on(Library::Go, ECHO, &companion.path("bootstrap.json"));
        assert!(!client.call(UNARY, 1).contains("OK"), "it called by a control plane without its name");
        assert_eq!(nameless.client("shop/web-1"), None);

        let companion = Companion::start(&control, &authority, "stranger", "24h");
        let mut bootstrap: serde_json::Value = serde_json::from_str(&companion.read("bootstrap.json")).expect("JSON");
        let credentials = bootstrap["xds_servers"][0]["channel_creds"][0]["config"].as_object_mut().expect("files");
        credentials.retain(|name, _| name == "ca_certificate_file" || name == "refresh_interval");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bootstrap.to_string()).expect("there is room");
        let mut stranger = XdsClient::on(Library::Go, ECHO, file.path());
        assert!(!stranger.call(UNARY, 1).contains("OK"), "a client without a certificate was answered");
        assert_eq!(control.client("stranger"), None);
    });
}
