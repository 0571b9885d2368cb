use leno_model::mesh::MeshedPod;
use leno_xds::{Dialect, Kind};

use super::super::delta::Delta;
use super::super::fixtures::{Client, ack, mesh, names, pod, state, subscribe, with_pod};
use super::super::state::State;

const PORTS: std::ops::Range<u16> = 9_000..9_020;

/// Acknowledges the client's responses until none is due. Returns the kinds and names in them, and the number of
/// resources that were encoded for them.
fn all_news(state: &State, client: &Client<'_>) -> (Vec<String>, u64) {
    let before = state.metrics.written_so_far();
    let mut news = Vec::new();
    while let Some(response) = client.next::<Delta>() {
        client.send::<Delta>(&ack(&response)).expect("within limits");
        let kind = Kind::from_type_url(&response.type_url).expect("one of ours").name();
        news.extend(names(&response).into_iter().map(|name| format!("{kind} {name}")));
    }
    (news, state.metrics.written_so_far() - before)
}

#[test]
fn a_change_of_one_of_a_services_ports_writes_one_resource() {
    let ports: String = PORTS.map(|port| format!("{{name: p{port}, port: {port}}},")).collect();
    let slice = |name: &str, ports: &str, endpoint: &str| {
        format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: {name}, labels: {{kubernetes.io/service-name: echo}}}}\n\
             addressType: IPv4\nports: [{ports}]\nendpoints: [{{addresses: [{endpoint}]}}]\n"
        )
    };
    let service = format!("apiVersion: v1\nkind: Service\nmetadata: {{name: echo}}\nspec:\n  ports: [{ports}]\n");
    let before = service + &slice("echo-1", &ports, "10.1.0.1");
    let state = state(&before);
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    for port in PORTS {
        let (name, endpoint) = (format!("echo.default:{port}"), format!("10.1.0.1:{port}"));
        for kind in Kind::ALL {
            client.send::<Delta>(&subscribe(kind, &[&name])).expect("within limits");
        }
        client.send::<Delta>(&subscribe(Kind::Listener, &[&endpoint])).expect("within limits");
    }
    assert_eq!(all_news(&state, &client).1, 5 * PORTS.len() as u64);
    state.set_mesh(mesh(&(before.clone() + &slice("echo-2", "{name: p9007, port: 9007}", "10.1.0.2"))));
    assert_eq!(all_news(&state, &client), (vec!["endpoints echo.default:9007".to_owned()], 1));
    state.set_mesh(mesh(&(before + &slice("echo-2", "{name: other, port: 9007}", "10.1.0.2"))));
    assert_eq!(all_news(&state, &client), (vec!["endpoints echo.default:9007".to_owned()], 1));
}

#[test]
fn a_change_of_a_pod_writes_only_the_resources_that_depend_on_it() {
    const IP: &str = "10.244.1.7";
    let state = state("");
    let client = Client::held_by::<Delta>(&state, "web");
    for port in PORTS {
        client.send::<Delta>(&subscribe(Kind::Listener, &[&format!("{IP}:{port}")])).expect("within limits");
        for kind in [Kind::Cluster, Kind::Endpoints] {
            client.send::<Delta>(&subscribe(kind, &[&format!("-10-244-1-7.shop:{port}")])).expect("within limits");
        }
    }
    assert_eq!(all_news(&state, &client).1, 0);
    let change = |pod: MeshedPod| {
        state.set_mesh(with_pod(IP, pod));
        let (mut news, written) = all_news(&state, &client);
        assert_eq!(news.len() as u64, written, "only what has changed is written: {news:?}");
        news.sort();
        news
    };
    let each = PORTS.len();
    assert_eq!(change(pod("cart")).len(), 3 * each, "it is new");
    assert_eq!(change(pod("cart")).len(), 0, "nothing has changed");
    let opaque = MeshedPod { opaque_ports: "9007".parse().expect("ports"), ..pod("cart") };
    let of_port = |kind: &str| format!("{kind} -10-244-1-7.shop:9007");
    assert_eq!(change(opaque.clone()), [of_port("cluster"), of_port("endpoints")]);
    let renamed = MeshedPod { name: "cart-1".into(), ..opaque };
    assert_eq!(change(renamed.clone()).len(), each, "only endpoints have the Pod's name");
    let owned = MeshedPod { controller: "statefulset/cart".parse().ok(), ..renamed };
    assert_eq!(change(owned).len(), each, "only endpoints have the Pod's controller");
    let other = MeshedPod { name: "cart-1".into(), ..pod("other") };
    assert_eq!(change(other.clone()).len(), 2 * each, "clusters and endpoints have its identity");
    state.set_mesh(with_pod(IP, MeshedPod { skipped_ports: "9008".parse().expect("ports"), ..other.clone() }));
    let (news, written) = all_news(&state, &client);
    assert_eq!((news.len(), written), (3, 0), "the port is gone: {news:?}");
    state.set_mesh(with_pod(IP, MeshedPod { namespace: "lab".into(), ..other }));
    let (news, written) = all_news(&state, &client);
    assert_eq!((news.len(), written), (3 * each - 2, each as u64), "listeners lead to other names: {news:?}");
}
