use std::net::SocketAddr;
use std::sync::Arc;

use super::{ClusterKey, Dialled, Draft, EndpointProxy, Mesh, MeshedPod, Unroutable};
use crate::discovery::Subject;
use crate::fixtures::{ECHO, echo_with, objects, translated};
use crate::proxy;
use crate::translate::{Memo, translate_again};

fn mesh() -> Mesh {
    let shop = "
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec:
  clusterIPs: [10.96.0.20, 'fd00::20']
  ports: [{name: grpc, port: 8080}, {name: web, port: 80}]
";
    translated(&[("a.yaml", ECHO), ("b.yaml", shop)]).mesh
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn names<'a>(mesh: &'a Mesh, authority: &str) -> Result<&'a ClusterKey, Unroutable> {
    mesh.cluster_by_authority(authority.as_bytes()).map(|cluster| &cluster.key)
}

#[test]
fn clusters_are_sorted_by_namespace_service_and_port() {
    let names: Vec<String> = mesh().clusters().iter().map(|cluster| cluster.key.to_string()).collect();
    assert_eq!(names, ["echo.default:50051", "cart.shop:80", "cart.shop:8080"]);
}

#[test]
fn every_form_of_authority_finds_its_cluster() {
    let mesh = mesh();
    for (authority, cluster) in [
        ("echo:50051", "echo.default:50051"),
        ("echo.default:50051", "echo.default:50051"),
        ("Echo.DEFAULT.svc:50051", "echo.default:50051"),
        ("echo.default.svc.cluster.local.:50051", "echo.default:50051"),
        ("cart.shop", "cart.shop:80"),
        ("cart.shop:8080", "cart.shop:8080"),
        ("10.96.0.10:50051", "echo.default:50051"),
        ("10.96.0.20", "cart.shop:80"),
        ("[fd00::20]:8080", "cart.shop:8080"),
        ("[::ffff:10.96.0.20]", "cart.shop:80"),
    ] {
        assert_eq!(names(&mesh, authority).map(ToString::to_string), Ok(cluster.to_owned()), "{authority}");
    }
}

#[test]
fn the_name_of_every_cluster_finds_it() {
    let mesh = mesh();
    for cluster in mesh.clusters() {
        assert_eq!(names(&mesh, &cluster.key.to_string()), Ok(&cluster.key));
    }
}

#[test]
fn a_call_for_nothing_known_is_told_what_is() {
    let mesh = mesh();
    let refusal = |authority: &str| names(&mesh, authority).expect_err("refused").to_string();
    assert_eq!(refusal("echo"), "Service echo in namespace default has no port 80: write echo.default:50051");
    assert_eq!(refusal("cart.shop:1"), "Service cart in namespace shop has no port 1: write cart.shop:80 or 8080");
    assert_eq!(refusal("CART:80"), "there is no Service cart in namespace default: check the :authority, or define it");
    for unknown in ["car.shop", "cart.sho", "carts.shop", "a.a", "z.z"] {
        assert!(refusal(unknown).starts_with("there is no Service"), "{unknown}");
    }
    assert_eq!(
        refusal("[fd00::21]:80"),
        "no Service has the clusterIP fd00::21 with port 80: use a Service's name or clusterIP"
    );
    assert_eq!(Mesh::empty().cluster_by_address(address("10.96.0.10:50051")), None);
}

#[test]
fn refusals_are_short_plain_text_whatever_was_asked() {
    let mesh = mesh();
    let (a, b) = ("a".repeat(63), "b".repeat(63));
    for authority in [format!("{a}.{b}:65535"), format!("{a}.{b}.{a}.{}", "c".repeat(62)), "\u{1}\n".to_owned()] {
        let text = names(&mesh, &authority).expect_err("refused").to_string();
        assert!(text.len() < 512 && text.bytes().all(|b| (b' '..=b'~').contains(&b)), "{text}");
    }
}

#[test]
fn a_connection_to_a_cluster_ip_finds_its_cluster_however_the_address_is_written() {
    let mesh = mesh();
    for text in ["10.96.0.20:80", "[::ffff:10.96.0.20]:80", "[fd00::20]:80", "[fd00::20%7]:80"] {
        let found = mesh.cluster_by_address(address(text)).map(|cluster| cluster.key.to_string());
        assert_eq!(found.as_deref(), Some("cart.shop:80"), "{text}");
    }
    assert_eq!(mesh.cluster_by_address(address("10.96.0.20:81")), None);
}

#[test]
fn an_endpoints_own_address_is_not_balanced_away() {
    assert_eq!(mesh().cluster_by_address(address("127.0.0.1:50061")), None);
}

#[test]
fn an_endpoint_is_found_by_its_own_address_even_when_it_is_not_ready_and_with_its_proxy() {
    let text = echo_with("[127.0.0.3]", "[127.0.0.3]\n  conditions: {ready: false}");
    let second = "---
apiVersion: v1
kind: Service
metadata: {name: another}
spec: {ports: [{name: grpc, port: 1}]}
";
    let slice = ECHO.split_once("---\n").expect("two documents").1;
    let slice = slice.replace("echo", "another").replace("127.0.0.2", "127.0.0.4");
    let mesh = translated(&[("a.yaml", &text), ("b.yaml", &format!("{second}---\n{slice}"))]).mesh;
    for (asked, service) in [
        ("127.0.0.1:50061", "another"),
        ("127.0.0.2:50061", "echo"),
        ("127.0.0.3:50061", "another"),
        ("127.0.0.4:50061", "another"),
        ("[::ffff:127.0.0.2]:50061", "echo"),
    ] {
        let (cluster, endpoint) = mesh.endpoint_by_address(address(asked)).expect("known");
        let canonical = SocketAddr::new(address(asked).ip().to_canonical(), 50061);
        assert_eq!((&*cluster.key.service, endpoint.address), (service, canonical), "{asked}");
    }
    for unknown in ["127.0.0.1:50051", "127.0.0.9:50061", "10.96.0.10:50051"] {
        assert!(mesh.endpoint_by_address(address(unknown)).is_none(), "{unknown}");
    }
    let labels = "labels: {kubernetes.io/service-name: echo}";
    let known = text.replace(labels, &format!("{labels}\n  annotations: {{leno.dev/identity: ns/shop/sa/echo}}"));
    let mesh = translated(&[("a.yaml", &known), ("b.yaml", &format!("{second}---\n{slice}"))]).mesh;
    let (cluster, endpoint) = mesh.endpoint_by_address(address("127.0.0.1:50061")).expect("known");
    assert_eq!(&*cluster.key.service, "echo", "it knows of the proxy");
    assert!(endpoint.proxy.is_some());
    let alone = translated(&[("a.yaml", &text)]).mesh;
    let (cluster, endpoint) = alone.endpoint_by_address(address("127.0.0.3:50061")).expect("known");
    assert_eq!((cluster.endpoints.len(), endpoint), (2, &cluster.unready_endpoints[0]));
}

#[test]
fn an_ipv4_address_that_a_slice_writes_as_ipv6_is_found_in_both_forms() {
    let text = echo_with("addressType: IPv4", "addressType: IPv6");
    let text =
        (1..=3).fold(text, |text, n| text.replace(&format!("[127.0.0.{n}]"), &format!("['::ffff:127.0.0.{n}']")));
    let mesh = translated(&[("a.yaml", &text)]).mesh;
    for asked in ["127.0.0.2:50061", "[::ffff:127.0.0.2]:50061"] {
        let (_, endpoint) = mesh.endpoint_by_address(address(asked)).expect("known");
        assert_eq!(endpoint.address, address("[::ffff:127.0.0.2]:50061"), "{asked}");
    }
}

#[test]
fn an_address_from_a_headless_services_record_stands_for_any_of_them() {
    let text = echo_with("10.96.0.10", "None").replace("[127.0.0.2]", "[127.0.0.2]\n  hostname: echo-0");
    let mesh = translated(&[("a.yaml", &text)]).mesh;
    let found = mesh.cluster_by_address(address("127.0.0.1:50061")).map(|cluster| cluster.key.to_string());
    assert_eq!(found.as_deref(), Some("echo.default:50051"));
    assert_eq!(mesh.cluster_by_address(address("127.0.0.2:50061")), None, "it has a name of its own");
    assert_eq!(mesh.cluster_by_address(address("127.0.0.1:50051")), None, "it listens elsewhere");
}

#[test]
fn where_only_pods_are_meant_by_their_addresses_no_other_endpoint_stands_for_a_headless_service() {
    let pod = "[127.0.0.2]\n  targetRef: {kind: Pod, name: echo-0}";
    let text = echo_with("10.96.0.10", "None").replace("[127.0.0.2]", pod);
    let objects = objects(&text);
    let found = |dialled, at: &str| {
        let mesh = translate_again(&objects, "default", dialled, &mut Memo::default()).mesh;
        (mesh.cluster_by_address(address(at)).is_some(), mesh.endpoint_by_address(address(at)).is_some())
    };
    assert_eq!(found(Dialled::Any, "127.0.0.1:50061"), (true, true));
    assert_eq!(found(Dialled::Pods, "127.0.0.1:50061"), (false, false));
    assert_eq!(found(Dialled::Pods, "127.0.0.2:50061"), (true, true));
}

#[test]
fn a_mesh_is_shown_with_its_names_addresses_and_settings() {
    let shown = serde_json::to_value(translated(&[("a.yaml", ECHO)]).mesh).expect("plain data");
    let endpoint = |address| {
        serde_json::json!({"address": address, "zone": null, "hostname": null, "pod": null, "controller": null,
            "proxy": null})
    };
    let expected = serde_json::json!({
        "default_namespace": "default",
        "clusters": [{
            "key": "echo.default:50051",
            "balancer": "latency",
            "protocol": "detect",
            "settings": {
                "connect_timeout_ms": 1000,
                "max_connections_per_endpoint": 16,
                "idle_timeout_ms": 60000,
                "max_connection_age_ms": null,
            },
            "cluster_ips": ["10.96.0.10"],
            "endpoints": [
                endpoint("127.0.0.1:50061"),
                endpoint("127.0.0.2:50061"),
                endpoint("127.0.0.3:50061"),
            ],
            "unready_endpoints": [],
        }],
        "policies": [],
            "http_ports": [],
        "routes": [],
    });
    assert_eq!(shown, expected);
}

#[test]
fn a_mesh_shares_what_is_equal_with_the_one_before() {
    let policy = "---
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: web}
spec: {allow: []}
";
    let mesh = |text: &str| translated(&[("a.yaml", &format!("{text}{policy}"))]).mesh;
    let other = ECHO.replace("echo", "other").replace("10.96.0.10", "10.96.0.11");
    let before = mesh(&format!("{}---\n{other}", ECHO));
    let after = mesh(&format!("{}---\n{other}", echo_with("127.0.0.3", "127.0.0.4"))).sharing(&before);
    let is_shared = |place: usize| Arc::ptr_eq(&before.clusters()[place], &after.clusters()[place]);
    assert_eq!([is_shared(0), is_shared(1)], [false, true]);
    assert!(Arc::ptr_eq(&before.policies()[0], &after.policies()[0]));
}

#[test]
fn a_mesh_tells_whether_its_policies_are_those_of_another() {
    let mesh = |allow: &str| {
        let policy = "---\napiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {name: web}\n";
        translated(&[("a.yaml", &format!("{ECHO}{policy}spec: {{allow: {allow}}}\n"))]).mesh
    };
    assert!(mesh("[]").has_policies_of(&mesh("[]")), "equal, if not shared");
    assert!(!mesh("[]").has_policies_of(&mesh("[{identities: ['*']}]")));
    assert!(!mesh("[]").has_policies_of(&translated(&[("a.yaml", ECHO)]).mesh));
    assert!(!mesh("[]").has_policies_of(&mesh("[]").answering([])), "before they are known none is in force");
}

#[test]
fn a_mesh_that_answers_some_questions_says_what_is_left_to_ask() {
    let whole = mesh();
    assert_eq!(whole.unanswered_authority(b"nobody.knows:1"), None);
    assert_eq!(whole.unanswered_address(address("10.9.9.9:1")), None);

    let asked = |mesh: &Mesh, authority: &str| mesh.unanswered_authority(authority.as_bytes()).map(|s| s.to_string());
    let nothing = mesh().answering([]);
    let cart = nothing.unanswered_authority(b"Cart.shop.svc.cluster.local").expect("a question");
    assert_eq!(cart.to_string(), "cart.shop:80");
    assert_eq!(asked(&nothing, "echo:50051").as_deref(), Some("echo.default:50051"));
    assert_eq!(asked(&nothing, "[fd00::20]:80").as_deref(), Some("[fd00::20]:80"));
    assert_eq!(asked(&nothing, "www.example.com:80"), None, "it is no Service's name, whoever is asked");
    let wrapped = nothing.unanswered_address(address("[::ffff:10.96.0.20]:80")).expect("a question");
    assert_eq!(wrapped.to_string(), "10.96.0.20:80");

    let some = mesh().answering([cart.clone(), wrapped.clone(), cart.clone()]);
    assert!(some.answers(&cart) && some.answers(&wrapped));
    assert_eq!(asked(&some, "cart.shop"), None);
    assert_eq!(asked(&some, "10.96.0.20"), None);
    assert_eq!(asked(&some, "cart.shop:8080").as_deref(), Some("cart.shop:8080"));
}

#[test]
fn an_address_that_is_assumed_to_be_outside_needs_no_answer_unless_an_authority_names_it() {
    let mut draft = Draft::new("default");
    let outside = address("192.0.2.1:443");
    draft.set_assumed_outside(address("[::ffff:192.0.2.1]:443"), true);
    let mesh = draft.mesh();
    assert_eq!(mesh.unanswered_address(outside), None);
    assert_eq!(mesh.unanswered_address(address("[::ffff:192.0.2.1]:443")), None);
    assert!(mesh.unanswered_address(address("192.0.2.1:80")).is_some());
    assert_eq!(mesh.unanswered_authority(b"192.0.2.1:443"), Some(Subject::Address(outside)));
    assert!(!mesh.answers(&Subject::Address(outside)));
}

#[test]
fn only_a_whole_mesh_shows_that_a_service_does_not_exist() {
    let (service, namespace): (Box<str>, Box<str>) = ("nobody".into(), "shop".into());
    let unknown = Unroutable::UnknownService { service: service.clone(), namespace: namespace.clone() };
    assert_eq!(names(&mesh(), "nobody.shop:1"), Err(unknown));
    let unknown_port = Unroutable::UnknownServicePort { service, namespace, port: 1 };
    assert_eq!(names(&mesh().answering([]), "nobody.shop:1"), Err(unknown_port));
}

#[test]
fn which_policies_are_in_force_is_asked_once() {
    assert_eq!(mesh().unanswered_inbound(), None);
    assert_eq!(mesh().answering([]).unanswered_inbound(), Some(Subject::Inbound));
    assert_eq!(mesh().answering([Subject::Inbound]).unanswered_inbound(), None);
}

#[test]
fn a_policy_is_found_by_its_name_and_its_namespace() {
    let policy = |namespace: &str, name: &str| {
        format!(
            "---\napiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\n\
             metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{allow: []}}\n"
        )
    };
    let text = [("shop", "web"), ("lab", "web"), ("shop", "cart"), ("shop2", "a")].map(|(a, b)| policy(a, b)).concat();
    let mesh = translated(&[("a.yaml", &text)]).mesh;
    let names = |namespace: &str| mesh.policies_of(namespace).map(|policy| policy.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names("shop"), ["cart", "web"]);
    assert_eq!(names("sho"), [""; 0]);
    assert_eq!(mesh.policy("lab", "web").map(|policy| &*policy.namespace), Some("lab"));
    assert!(mesh.policy("lab", "cart").is_none());
}

#[test]
fn ports_that_services_of_the_pods_namespace_declare_to_speak_http_are_told() {
    let service = |name: &str, namespace: &str, protocol: &str, port: u16, address: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
             spec: {{ports: [{{port: 80{protocol}}}]}}\n---\n\
             apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: {name}-1, namespace: {namespace}, labels: {{kubernetes.io/service-name: {name}}}}}\n\
             addressType: IPv4\nports: [{{port: {port}}}]\nendpoints: [{{addresses: [{address}]}}]\n---\n"
        )
    };
    let (http, grpc, tcp, none) = (", appProtocol: http", ", appProtocol: grpc", ", appProtocol: tcp", "");
    let text = [
        service("web", "shop", http, 8080, "10.1.0.1"),
        service("web-too", "shop", none, 8080, "10.1.0.1"),
        service("api", "shop", grpc, 9090, "10.1.0.1"),
        service("mixed", "shop", http, 7070, "10.1.0.1"),
        service("mixed-too", "shop", tcp, 7070, "10.1.0.1"),
        service("plain", "shop", none, 6060, "10.1.0.1"),
        service("spy", "other", http, 5050, "10.1.0.1"),
        service("elsewhere", "shop", http, 4040, "10.1.0.2"),
    ];
    let mesh = translated(&[("services.yaml", &text.concat())]).mesh;
    let of = |ip: &str, namespace: &str| mesh.http_ports_of(ip.parse().expect("an address"), namespace);
    assert_eq!(of("10.1.0.1", "shop"), [8080, 9090], "one that another Service declares opaque is not told");
    assert_eq!(of("10.1.0.2", "shop"), [4040]);
    assert_eq!(of("10.1.0.1", "other"), [5050], "each namespace speaks for its own Pods");
    assert!(of("10.1.0.3", "shop").is_empty());

    // The Pod has one address of each IP family, and its Services list only one of the two.
    let pod = |other: &str| MeshedPod {
        namespace: "shop".into(),
        name: "web-0".into(),
        controller: None,
        other_ip: other.parse().ok(),
        proxy: EndpointProxy {
            identity: "ns/shop/sa/web".parse().expect("a workload"),
            inbound_port: None,
            tunnel_port: proxy::TUNNEL_PORT,
        },
        skipped_ports: Default::default(),
        opaque_ports: Default::default(),
    };
    let pods = [("10.1.0.1", "fd00::1"), ("fd00::1", "10.1.0.1")];
    let pods = pods.map(|(ip, other)| (ip.parse().expect("an address"), pod(other)));
    let mesh = mesh.with_pods(Arc::new(pods.into()));
    let of = |ip: &str| mesh.http_ports_of(ip.parse().expect("an address"), "shop");
    assert_eq!((of("fd00::1"), of("10.1.0.1")), (vec![8080, 9090], vec![8080, 9090]));
    assert!(of("fd00::2").is_empty());
}
