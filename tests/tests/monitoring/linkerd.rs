//! The Grafana dashboards that Linkerd publishes, on the metrics of Leno's proxies.

use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::faults::sides::behind_proxy;

use super::*;

const EXPRESSIONS: &str = "tests/monitoring/linkerd_dashboards.txt";
/// Default namespace of Services.
const NAMESPACE: &str = "default";
/// For each kind of controller: the name of its dashboard, Linkerd's label for the kind, and the kind of the object
/// that directly owns the Pods.
const KINDS: [(&str, &str, &str); 7] = [
    ("cronjob", "cronjob", "Job"),
    ("daemonset", "daemonset", "DaemonSet"),
    ("deployment", "deployment", "ReplicaSet"),
    ("job", "k8s_job", "Job"),
    ("replicaset", "replicaset", "ReplicaSet"),
    ("replicationcontroller", "replicationcontroller", "ReplicationController"),
    ("statefulset", "statefulset", "StatefulSet"),
];
/// The exception of expressions that have no data because they name Linkerd's job `linkerd-proxy`. With Leno's job
/// `leno-proxy` in its place, they must have data.
const JOB: &str = "job";
/// Pause after a reset, so that the endless calls do not use up the machine's two cores.
const PAUSE: Duration = Duration::from_millis(100);

/// Expressions of one or more dashboards.
#[derive(Debug)]
struct Section {
    dashboards: Vec<String>,
    /// The reason why the expressions have no data; `None` if they must have data.
    exception: Option<String>,
    expressions: Vec<String>,
}

fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in read(EXPRESSIONS).lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some(heading) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) else {
            sections.last_mut().expect("a heading precedes").expressions.push(line.to_owned());
            continue;
        };
        let (dashboards, exception) = match heading.split_once(": ") {
            Some((dashboards, exception)) => (dashboards, Some(exception.to_owned())),
            None => (heading, None),
        };
        let dashboards = match dashboards {
            "controllers" => KINDS.map(|(dashboard, ..)| dashboard.to_owned()).into(),
            named => named.split(' ').map(str::to_owned).collect(),
        };
        sections.push(Section { dashboards, exception, expressions: Vec::new() });
    }
    sections
}

/// Puts values in place of Grafana's variables: `cart` for the workload that gets the calls, `web` for the workload
/// that makes the calls.
fn filled(expression: &str, dashboard: &str) -> String {
    let (kind, label, _) = *KINDS.iter().find(|(kind, ..)| *kind == dashboard).unwrap_or(&KINDS[2]);
    let own = if expression.contains(r#"direction="inbound""#) { "cart" } else { "web" };
    let filled = expression
        .replace(r#"dst_KIND="$KIND""#, r#"dst_KIND="cart""#)
        .replace(r#"dst_KIND="$outbound""#, r#"dst_KIND="cart""#)
        .replace(r#"KIND="$inbound""#, r#"KIND="web""#)
        .replace("$KIND", own)
        .replace("KIND", label)
        .replace("$deployment", own)
        .replace("$pod", &format!("{own}-{kind}"))
        .replace("$service", &format!("cart-{kind}"))
        .replace("$authority", &format!("cart-{kind}.{NAMESPACE}.svc.cluster.local:{PORT}"))
        .replace("$namespace", NAMESPACE)
        .replace("$__rate_interval", "1m");
    assert!(!filled.contains('$'), "a variable has no value: {filled}");
    filled
}

/// Replaces each variable by a pattern that matches every value. So the expression has data as soon as a series has the
/// variable's label.
fn of_any_value(expression: &str) -> String {
    let mut parts = expression.split("=\"$");
    let first = parts.next().unwrap_or_default().to_owned();
    let any = parts.fold(first, |any, part| {
        let (_, rest) = part.split_once('"').expect("a quoted value");
        any + "=~\".+\"" + rest
    });
    any.replace("$namespace", NAMESPACE).replace("$__rate_interval", "1m").replace("KIND", "deployment")
}

/// A Pod of the workload `name`, whose controller has this kind. The Pod's proxy has this admin address.
fn pod(name: &str, (kind, _, owner): (&str, &str, &str), admin: SocketAddr) -> Value {
    let controller = match kind {
        "cronjob" => format!("{name}-29123456"),
        "deployment" => format!("{name}-7c9f"),
        _ => name.to_owned(),
    };
    let pod = format!("{name}-{kind}");
    let labels = [
        ("namespace", NAMESPACE),
        ("pod_name", &pod),
        ("pod_controller_kind", owner),
        ("pod_controller_name", &controller),
        ("pod_label_pod_template_hash", if kind == "deployment" { "7c9f" } else { "" }),
    ];
    found(admin, &labels)
}

/// Returns a Service for each kind of controller. Each Service has two endpoints, one with a proxy and one without.
fn carts(server: &ServerSide, plain: &Backend) -> Vec<Service> {
    let (meshed, plain) = (server.endpoint(), plain.address());
    let cart = |(kind, ..): (&str, &str, &str)| {
        let service = Service::new(&format!("cart-{kind}"), &[meshed, plain]).annotated("leno.dev/balancer", "random");
        let service = behind_proxy(service, meshed, "ns/default/sa/cart");
        [meshed, plain].into_iter().fold(service, |service, endpoint| {
            service.endpoint_annotated(endpoint, "leno.dev/controller", &format!("{kind}/cart"))
        })
    };
    KINDS.into_iter().map(cart).collect()
}

/// Calls every Service, calls the server without TLS, and resets connections to both proxies.
async fn call_and_reset_for_ever(web: SocketAddr, cart: SocketAddr) {
    let client = Client::connect(web, ECHO).await;
    loop {
        for (kind, ..) in KINDS {
            let answer = client.call(&Call::new("Fast").to(&format!("cart-{kind}.{NAMESPACE}:{PORT}")), b"hello").await;
            assert_eq!(answer.grpc_status(), Some(0), "{answer:?}");
        }
        // Nothing redirected this connection to the proxy, so the proxy answers with an error, and counts the call.
        let unencrypted = Client::connect(cart, ECHO).await;
        let _ = unencrypted.try_call(&Call::new("Fast"), b"hello").await;
        reset(web).await;
        reset(cart).await;
    }
}

/// Opens a connection of HTTP/2, and resets it.
async fn reset(proxy: SocketAddr) {
    let mut connection = TcpStream::connect(proxy).await.expect("the proxy listens");
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("the proxy reads");
    // Wait for the proxy's SETTINGS: the proxy sends them after it has detected the protocol and counted the
    // connection.
    connection.read_u8().await.expect("the proxy's settings");
    socket2::SockRef::from(&connection).set_linger(Some(Duration::ZERO)).expect("a socket option");
    drop(connection);
    tokio::time::sleep(PAUSE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboards_of_linkerd_find_what_proxies_export_except_for_a_list_with_reasons() {
    if !is_installed("prometheus", "prometheus") {
        return;
    }
    let authority = Authority::new();
    let server = ServerSide::start(&authority, "cart", Default::default(), &[]).await;
    let plain = Backend::start().await;
    let client = client_side(&authority, &carts(&server, &plain), &[]);
    let calls = tokio::spawn(call_and_reset_for_ever(client.outbound(), server.inbound()));

    let targets =
        KINDS.iter().flat_map(|kind| [pod("cart", *kind, server.proxy().admin()), pod("web", *kind, client.admin())]);
    let prometheus = Prometheus::start(&json!([in_a_cluster("leno-proxy", targets.collect())]));

    let sections = sections();
    let (mut wanted, mut without) = (BTreeSet::new(), BTreeSet::new());
    for Section { dashboards, exception, expressions } in &sections {
        for (dashboard, expression) in dashboards.iter().flat_map(|of| expressions.iter().map(move |one| (of, one))) {
            match exception.as_deref() {
                None => wanted.insert(filled(expression, dashboard)),
                Some(JOB) => {
                    without.insert(of_any_value(expression));
                    wanted.insert(of_any_value(&expression.replace("linkerd-proxy", "leno-proxy")))
                }
                Some(_) => without.insert(of_any_value(expression)),
            };
        }
    }
    tokio::task::block_in_place(|| {
        let deadline = Instant::now() + PATIENCE;
        while !wanted.is_empty() {
            wanted.retain(|expression| prometheus.count(expression) == 0);
            assert!(Instant::now() < deadline, "no data for {wanted:#?}");
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    for expression in &without {
        assert_eq!(prometheus.count(expression), 0, "{expression} has data: it is no exception any more");
    }
    assert!(!calls.is_finished(), "{:?}", calls.await);
    calls.abort();
}

#[test]
fn the_table_of_linkerds_dashboards_counts_their_expressions() {
    let page = read("docs/coming-from.md");
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for Section { dashboards, exception, expressions } in sections() {
        for dashboard in dashboards {
            let (with_data, all) = counts.entry(dashboard).or_default();
            *all += expressions.len();
            *with_data += if exception.is_none() { expressions.len() } else { 0 };
        }
    }
    for (dashboard, (with_data, all)) in counts {
        let is_controller = KINDS.iter().any(|(kind, ..)| *kind == dashboard);
        let row = if is_controller { "each kind of controller".to_owned() } else { format!("`{dashboard}`") };
        let row = format!("| {row} | {with_data} of {all} |");
        assert!(page.contains(&row), "docs/coming-from.md has no row {row}");
    }
}
