//! Meshes for the tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leno_model::balance::{BudgetSettings, Policy};
use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::{Cluster, ClusterKey, Endpoint, EndpointProxy, Mesh};
use leno_model::policy::{AuthorizationPolicy, Identities, Mode, Network, Rule};
use leno_model::protocol::Protocol;
use leno_model::proxy;
use leno_model::settings::Settings;
use leno_model::traffic::{self, Objectives, Setting};
use leno_model::translate::translate;

use crate::view::{Dialect, View};

/// The properties of two kinds of clients: of leno-proxy, and of Envoys that have no certificate of the mesh.
pub(crate) const ENVOY: View<'_> = View { dialect: Dialect::Envoy, mutual_tls: None };
/// The properties of gRPC clients that have no certificate of the mesh.
pub(crate) const GRPC: View<'_> = View { dialect: Dialect::Grpc, mutual_tls: None };

/// A Service with one port and no endpoint.
pub(crate) fn cluster(name: &str) -> Cluster {
    Cluster {
        key: ClusterKey { namespace: "shop".into(), service: name.into(), port: 50051 },
        balancer: Policy::Latency,
        protocol: Protocol::Http2,
        settings: Settings::default(),
        retry_budget: None,
        objectives: None,
        cluster_ips: [IpAddr::from([10, 96, 0, 10])].into(),
        endpoints: Vec::new(),
        unready_endpoints: Vec::new(),
    }
}

/// An endpoint with nothing but an address.
pub(crate) fn endpoint(address: &str) -> Endpoint {
    let address = address.parse().expect("an address");
    Endpoint { address, zone: None, hostname: None, pod: None, controller: None, proxy: None }
}

/// An endpoint behind a proxy of the workload `shop/cart`.
pub(crate) fn meshed(address: &str, inbound_port: Option<u16>) -> Endpoint {
    let identity = "ns/shop/sa/cart".parse().expect("a workload");
    let proxy = EndpointProxy { identity, inbound_port, tunnel_port: proxy::TUNNEL_PORT };
    Endpoint { proxy: Some(proxy), ..endpoint(address) }
}

/// Returns the mesh of these manifests; references to missing objects are allowed.
pub(crate) fn mesh(text: &str) -> Mesh {
    let file = SourceFile { path: "mesh.yaml".to_owned(), text: text.to_owned() };
    let objects = parse_file(&file, "default").expect("manifests without mistakes").objects;
    translate(&objects, "default").mesh
}

pub(crate) fn random_mesh(random: &mut Rng) -> Mesh {
    let clusters: Vec<_> = (0..random.u8(0..6)).map(|number| Arc::new(random_cluster(random, number))).collect();
    let addresses = clusters.iter().flat_map(|cluster| {
        let at = |ip: &IpAddr| (SocketAddr::new(*ip, cluster.key.port), cluster.key.clone());
        cluster.cluster_ips.iter().map(at).collect::<Vec<_>>()
    });
    let addresses: Vec<_> = addresses.collect();
    Mesh::new("default", clusters, addresses, Vec::new(), Vec::new())
}

fn random_cluster(random: &mut Rng, number: u8) -> Cluster {
    let (ready, all) = (random.u8(0..6), random.u8(0..12));
    let mut endpoints: Vec<_> = (0..all).map(|endpoint| random_endpoint(random, endpoint)).collect();
    endpoints.sort_by_key(|endpoint| endpoint.address);
    let unready_endpoints = endpoints.split_off(endpoints.len().min(ready.into()));
    let balancers = Policy::ALL;
    let protocols = [Protocol::Detect, Protocol::Http2, Protocol::Http1, Protocol::Opaque];
    let ip = IpAddr::V4(Ipv4Addr::new(10, 96, 0, number));
    let ip6 = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()));
    Cluster {
        key: ClusterKey {
            namespace: random.choice(["shop", "default"]).expect("one").into(),
            service: format!("service-{number}").into(),
            port: random.u16(1..),
        },
        balancer: random.choice(balancers).expect("one"),
        protocol: random.choice(protocols).expect("one"),
        settings: Settings {
            connect_timeout: Duration::from_millis(random.u64(10..60_000)),
            max_connections_per_endpoint: random.u16(1..1_024),
            idle_timeout: Duration::from_millis(random.u64(1_000..86_400_000)),
            max_connection_age: random.bool().then(|| Duration::from_secs(random.u64(1..604_800))),
        },
        retry_budget: random.bool().then(|| random_budget(random)),
        objectives: random.bool().then(|| random_objectives(random)),
        cluster_ips: [ip, ip6].into_iter().take(random.usize(0..3)).collect(),
        endpoints,
        unready_endpoints,
    }
}

fn random_budget(random: &mut Rng) -> Setting<BudgetSettings> {
    Setting {
        value: BudgetSettings {
            percent: random.u8(0..=100),
            interval: Duration::from_millis(random.u64(1_000..60_000)),
            min_per_second: random.u32(0..1_000),
        },
        mode: random.choice([traffic::Mode::Audit, traffic::Mode::Enforce]).expect("one"),
        set_by: "TrafficPolicy shop/cart".into(),
    }
}

fn random_objectives(random: &mut Rng) -> Arc<Objectives> {
    let names = ["*", "GET", "POST", "shop.v1.Cart/*", "shop.v1.Cart/Get"];
    let mut lines: Vec<String> = Vec::new();
    for name in names.into_iter().take(random.usize(1..=names.len())) {
        let success = format!("success {}.{:03} %", random.u32(1..100), random.u32(..1_000));
        let latency = format!("p{}.{} {}ms", random.u32(50..100), random.u32(..10), random.u32(1..100_000));
        let both = format!("{success}, {latency}");
        lines.push(format!("{name}: {}", random.choice([success, latency, both]).expect("one")));
    }
    random.shuffle(&mut lines);
    Arc::new(Objectives::read(&lines.join("\n"), "Service shop/cart".into()).expect("objectives"))
}

fn random_endpoint(random: &mut Rng, number: u8) -> Endpoint {
    let some = |random: &mut Rng, text: &str| random.bool().then(|| format!("{text}-{number}").into());
    let ip = if random.bool() { format!("10.244.1.{number}") } else { format!("[fd00::1:{number}]") };
    let mut any = if random.bool() { endpoint(&format!("{ip}:50061")) } else { meshed(&format!("{ip}:50061"), None) };
    if let Some(proxy) = &mut any.proxy {
        proxy.inbound_port = random.bool().then(|| random.u16(1..));
        proxy.tunnel_port = random.u16(1..);
    }
    Endpoint {
        zone: random.bool().then(|| random.choice(["a", "b"]).expect("one").into()),
        hostname: some(random, "host"),
        pod: some(random, "pod"),
        controller: random.bool().then(|| "deployment/cart".parse().expect("a controller")),
        ..any
    }
}

/// Random policies of the namespace `shop`, sorted by name.
pub(crate) fn random_policies(random: &mut Rng) -> Vec<Arc<AuthorizationPolicy>> {
    (0..random.u8(0..4)).map(|number| Arc::new(random_policy(random, number))).collect()
}

fn random_policy(random: &mut Rng, number: u8) -> AuthorizationPolicy {
    let ports = [80, 8080, 9090];
    let name = format!("policy.{number}");
    let service_account = random.choice([None, Some("cart"), Some("other")]).expect("one").map(Into::into);
    let ports = random.bool().then(|| random_some(random, 3, |random| random.choice(ports).expect("one")));
    if random.u8(..6) == 0 {
        return AuthorizationPolicy::unreadable("shop", &name, service_account, ports);
    }
    AuthorizationPolicy {
        namespace: "shop".into(),
        name: name.into(),
        service_account,
        ports,
        mode: if random.bool() { Mode::Enforce } else { Mode::Audit },
        allow: random_some(random, 3, |random| Rule {
            identities: random.bool().then(|| random_some(random, 3, random_identities)),
            networks: random.bool().then(|| random_some(random, 2, random_network)),
        })
        .into(),
        health_checks: random_some(random, 2, |random| {
            let path = random.choice(["/healthz", "/", "/grpc.health.v1.Health/Check"]).expect("one");
            path.parse().expect("a path")
        }),
    }
}

fn random_some<T>(random: &mut Rng, most: usize, make: impl Fn(&mut Rng) -> T) -> Box<[T]> {
    (0..random.usize(0..=most)).map(|_| make(random)).collect()
}

fn random_identities(random: &mut Rng) -> Identities {
    if random.u8(..8) == 0 {
        return Identities::Any;
    }
    let trust_domain = random.choice([None, Some("cluster.local"), Some("other.org")]).expect("one");
    Identities::Of {
        trust_domain: trust_domain.map(|text| text.parse().expect("a trust domain")),
        namespace: random.choice([None, Some("shop"), Some("lab")]).expect("one").map(Into::into),
        service_account: random.choice([None, Some("web"), Some("a.b")]).expect("one").map(Into::into),
    }
}

fn random_network(random: &mut Rng) -> Network {
    let text = random.choice(["10.0.0.0/8", "192.168.7.20", "fd00::/8", "0.0.0.0/0", "::/0"]).expect("one");
    text.parse().expect("a network")
}
