use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use leno_model::mesh::{Mesh, MeshedPod};
use leno_xds::{Dialect, Kind};

use super::super::catalog::{Audience, Found};
use super::super::fixtures::{Client, ack, mesh, nack, names, pod, service, state, subscribe, unsubscribe, with_pod};
use super::super::session::{Answer, Session};
use super::Delta;

const ECHO: &str = "echo.default:80";
const OTHER: &str = "other.default:80";

fn two() -> String {
    service("echo", &["10.1.0.1"]) + &service("other", &["10.1.0.9"])
}

/// Acknowledges the client's next response and returns the names in it; `None` without a response.
fn got(client: &Client<'_>) -> Option<Vec<String>> {
    let response = client.next::<Delta>()?;
    client.send::<Delta>(&ack(&response)).expect("within limits");
    Some(names(&response))
}

fn sent(client: &Client<'_>, request: &DeltaDiscoveryRequest) {
    client.send::<Delta>(request).expect("within limits");
}

#[test]
fn only_what_changed_is_sent_and_only_to_those_who_asked_for_it() {
    let state = state(&two());
    let (echo, other) = (Client::new::<Delta>(&state, Dialect::Envoy), Client::new::<Delta>(&state, Dialect::Envoy));
    sent(&echo, &subscribe(Kind::Endpoints, &[ECHO]));
    sent(&other, &subscribe(Kind::Endpoints, &[OTHER]));
    assert_eq!(got(&echo), Some(vec![ECHO.to_owned()]));
    assert_eq!(got(&other), Some(vec![OTHER.to_owned()]));

    state.set_mesh(mesh(&(service("echo", &["10.1.0.1", "10.1.0.2"]) + &service("other", &["10.1.0.9"]))));
    assert_eq!(got(&echo), Some(vec![ECHO.to_owned()]));
    assert_eq!((got(&echo), got(&other)), (None, None));
}

#[test]
fn a_mesh_that_says_the_same_is_no_news() {
    let state = state(&two());
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    for kind in Kind::ALL {
        sent(&client, &subscribe(kind, &[ECHO]));
        assert!(got(&client).is_some());
    }
    state.set_mesh(mesh(&two()));
    assert_eq!(got(&client), None);
}

#[test]
fn what_does_not_exist_is_said_to_be_gone_at_once_and_sent_when_it_comes() {
    let state = state("");
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    sent(&client, &subscribe(Kind::Cluster, &[ECHO, "no name at all"]));
    assert_eq!(got(&client), Some(vec![format!("-{ECHO}"), "-no name at all".to_owned()]));
    state.set_mesh(mesh(&two()));
    assert_eq!(got(&client), Some(vec![ECHO.to_owned()]));
    state.set_mesh(mesh(""));
    assert_eq!(got(&client), Some(vec![format!("-{ECHO}")]));
    assert_eq!(got(&client), None);
}

#[test]
fn while_a_response_is_out_changes_gather_and_the_latest_is_sent() {
    let state = state(&two());
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    sent(&client, &subscribe(Kind::Endpoints, &[ECHO]));
    let first = client.next::<Delta>().expect("a response");
    for endpoint in ["10.1.0.2", "10.1.0.3", "10.1.0.4"] {
        state.set_mesh(mesh(&service("echo", &[endpoint])));
        assert!(client.next::<Delta>().is_none(), "one response of a kind is out at a time");
    }
    sent(&client, &ack(&first));
    let second = client.next::<Delta>().expect("a response");
    let any = second.resources[0].resource.clone().expect("a resource");
    let endpoints = leno_xds::endpoints::read(&any.value).expect("ours");
    assert_eq!(endpoints.ready[0].address.to_string(), "10.1.0.4:8080");
    sent(&client, &ack(&second));
    assert_eq!(got(&client), None);
}

#[test]
fn a_refused_version_is_not_sent_again_and_the_next_one_is() {
    let state = state(&two());
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    sent(&client, &subscribe(Kind::Endpoints, &[ECHO]));
    let response = client.next::<Delta>().expect("a response");
    let answer = client.send::<Delta>(&nack(&response, "I do not like it")).expect("within limits");
    assert_eq!(answer, Answer::Nack { names: vec![ECHO.into()], why: "I do not like it".to_owned() });
    state.set_mesh(mesh(&(two() + &service("third", &[]))));
    assert_eq!(got(&client), None);
    state.set_mesh(mesh(&service("echo", &["10.1.0.7"])));
    assert_eq!(got(&client), Some(vec![ECHO.to_owned()]));
}

#[test]
fn a_first_request_without_names_is_for_all_clusters_and_follows_them() {
    let state = state(&two());
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    sent(&client, &subscribe(Kind::Cluster, &[]));
    assert_eq!(got(&client), Some(vec![ECHO.to_owned(), OTHER.to_owned()]));
    state.set_mesh(mesh(&(service("echo", &["10.1.0.1"]) + &service("third", &[]))));
    assert_eq!(got(&client), Some(vec!["third.default:80".to_owned(), format!("-{OTHER}")]));
    assert_eq!(got(&client), None);
}

#[test]
fn a_client_that_comes_back_is_sent_what_it_does_not_have() {
    let state = state(&two());
    let before = Client::new::<Delta>(&state, Dialect::Envoy);
    sent(&before, &subscribe(Kind::Cluster, &[]));
    let response = before.next::<Delta>().expect("a response");
    before.close();

    let mut versions: std::collections::HashMap<_, _> =
        response.resources.iter().map(|resource| (resource.name.clone(), resource.version.clone())).collect();
    versions.insert("gone.default:80".to_owned(), "0123".to_owned());
    versions.insert(OTHER.to_owned(), "an older one".to_owned());
    let after = Client::new::<Delta>(&state, Dialect::Envoy);
    let mut request = subscribe(Kind::Cluster, &[]);
    request.initial_resource_versions = versions;
    sent(&after, &request);
    assert_eq!(got(&after), Some(vec![OTHER.to_owned()]));
    assert_eq!(got(&after), None, "the client may still have a route that names the cluster");
    after.with_session(Session::has_begun);
    assert_eq!(got(&after), Some(vec!["-gone.default:80".to_owned()]));
}

#[test]
fn a_client_that_comes_back_keeps_a_removed_cluster_until_its_route_is_gone() {
    let state = state(&two());
    let before = Client::new::<Delta>(&state, Dialect::Envoy);
    let versions = [(Kind::Cluster, "*"), (Kind::Route, ECHO)].map(|(kind, name)| {
        sent(&before, &subscribe(kind, &[name]));
        let response = before.next::<Delta>().expect("a response");
        sent(&before, &ack(&response));
        response.resources.into_iter().map(|resource| (resource.name, resource.version)).collect()
    });
    before.close();
    state.set_mesh(mesh(&service("other", &["10.1.0.9"])));

    let after = Client::new::<Delta>(&state, Dialect::Envoy);
    let [clusters, routes] = versions;
    sent(&after, &DeltaDiscoveryRequest { initial_resource_versions: clusters, ..subscribe(Kind::Cluster, &["*"]) });
    assert_eq!(got(&after), None);
    assert!(!after.with_session(|session| session.is_due()), "the stream would repeat this work for ever");
    sent(&after, &DeltaDiscoveryRequest { initial_resource_versions: routes, ..subscribe(Kind::Route, &[ECHO]) });
    let route = after.next::<Delta>().expect("the route goes");
    assert_eq!((route.type_url.as_str(), names(&route)), (Kind::Route.type_url(), vec![format!("-{ECHO}")]));
    after.with_session(Session::has_begun);
    assert_eq!(got(&after), None, "the client has not taken the removal of the route yet");
    sent(&after, &ack(&route));
    assert_eq!(got(&after), Some(vec![format!("-{ECHO}")]));
}

#[test]
fn a_client_names_what_it_has_in_several_requests() {
    let state = state(&two());
    let before = Client::new::<Delta>(&state, Dialect::Envoy);
    sent(&before, &subscribe(Kind::Endpoints, &[ECHO, OTHER]));
    let response = before.next::<Delta>().expect("a response");
    before.close();

    let after = Client::new::<Delta>(&state, Dialect::Envoy);
    for resource in &response.resources {
        let mut request = subscribe(Kind::Endpoints, &[&resource.name]);
        request.initial_resource_versions = [(resource.name.clone(), resource.version.clone())].into();
        sent(&after, &request);
    }
    assert_eq!(got(&after), None, "it has both");
}

#[test]
fn who_subscribes_again_is_sent_it_again_and_who_unsubscribes_hears_nothing() {
    let state = state(&two());
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    sent(&client, &subscribe(Kind::Endpoints, &[ECHO]));
    assert!(got(&client).is_some());
    sent(&client, &subscribe(Kind::Endpoints, &[ECHO]));
    assert_eq!(got(&client), Some(vec![ECHO.to_owned()]));
    sent(&client, &unsubscribe(Kind::Endpoints, &[ECHO]));
    state.set_mesh(mesh(&service("echo", &["10.1.0.7"])));
    assert_eq!(got(&client), None);
}

#[test]
fn clusters_come_before_the_routes_that_name_them_and_go_after() {
    let state = state(&service("echo", &[]));
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    for kind in [Kind::Route, Kind::Cluster] {
        sent(&client, &subscribe(kind, &[ECHO]));
    }
    let cluster = client.next::<Delta>().expect("the cluster");
    assert_eq!(cluster.type_url, Kind::Cluster.type_url());
    assert!(client.next::<Delta>().is_none(), "its route waits until it is there");
    sent(&client, &ack(&cluster));
    assert_eq!(
        client.next::<Delta>().map(|route| {
            sent(&client, &ack(&route));
            route.type_url
        }),
        Some(Kind::Route.type_url().to_owned())
    );

    state.set_mesh(mesh(""));
    let route = client.next::<Delta>().expect("the route goes");
    assert_eq!((route.type_url.as_str(), names(&route)), (Kind::Route.type_url(), vec![format!("-{ECHO}")]));
    assert!(client.next::<Delta>().is_none(), "its cluster stays until it is gone");
    sent(&client, &ack(&route));
    assert_eq!(got(&client), Some(vec![format!("-{ECHO}")]));
}

/// A change of the mesh removes a cluster and adds another one. The new cluster does not take the removal with it.
#[test]
fn a_new_cluster_does_not_make_the_removal_of_another_one_early() {
    let state = state(&service("echo", &[]));
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    sent(&client, &subscribe(Kind::Route, &[ECHO]));
    sent(&client, &subscribe(Kind::Cluster, &["*"]));
    while let Some(response) = client.next::<Delta>() {
        sent(&client, &ack(&response));
    }
    state.set_mesh(mesh(&service("other", &[])));
    let mut order = Vec::new();
    while let Some(response) = client.next::<Delta>() {
        order.extend(names(&response).into_iter().map(|name| format!("{} {name}", response.type_url)));
        sent(&client, &ack(&response));
    }
    let place = |kind: Kind, name: &str| {
        let wanted = format!("{} {name}", kind.type_url());
        order.iter().position(|found| *found == wanted).unwrap_or_else(|| panic!("no {wanted} in {order:?}"))
    };
    let added = order.iter().position(|found| found.contains("other")).expect("the new cluster");
    let route = place(Kind::Route, &format!("-{ECHO}"));
    assert!(added < route && route < place(Kind::Cluster, &format!("-{ECHO}")), "{order:?}");
}

/// [`two`] with another balancer for `echo`: only the Cluster of `echo` differs.
fn two_with_another_balancer() -> String {
    let annotated = "metadata: {name: echo, annotations: {leno.dev/balancer: random}}";
    two().replacen("metadata: {name: echo}", annotated, 1)
}

/// Subscribes to all Clusters and to their endpoints, and returns the versions of both.
fn with_endpoints_of_all(client: &Client<'_>) -> [std::collections::HashMap<String, String>; 2] {
    [(Kind::Cluster, &["*"][..]), (Kind::Endpoints, &[ECHO, OTHER])].map(|(kind, names)| {
        sent(client, &subscribe(kind, names));
        let response = client.next::<Delta>().expect("a response");
        sent(client, &ack(&response));
        assert_eq!(got(client), None);
        response.resources.into_iter().map(|resource| (resource.name, resource.version)).collect()
    })
}

#[test]
fn envoy_gets_the_endpoints_of_a_cluster_again_after_each_update_of_the_cluster() {
    let state = state(&two());
    let (envoy, proxy) = (Client::envoy::<Delta>(&state), Client::new::<Delta>(&state, Dialect::Envoy));
    with_endpoints_of_all(&envoy);
    with_endpoints_of_all(&proxy);

    state.set_mesh(mesh(&two_with_another_balancer()));
    let cluster = envoy.next::<Delta>().expect("the Cluster");
    assert_eq!((cluster.type_url.as_str(), names(&cluster)), (Kind::Cluster.type_url(), vec![ECHO.to_owned()]));
    // Envoy acknowledges the Cluster only after it has got the endpoints.
    let endpoints = envoy.next::<Delta>().expect("the Cluster's endpoints");
    assert_eq!((endpoints.type_url.as_str(), names(&endpoints)), (Kind::Endpoints.type_url(), vec![ECHO.to_owned()]));
    for response in [&endpoints, &cluster] {
        sent(&envoy, &ack(response));
    }
    assert_eq!(got(&envoy), None);

    assert_eq!(got(&proxy), Some(vec![ECHO.to_owned()]));
    assert_eq!(got(&proxy), None, "a proxy keeps the endpoints that it has");
}

#[test]
fn an_envoy_that_comes_back_gets_the_endpoints_of_the_clusters_that_have_changed() {
    let state = state(&two());
    let before = Client::envoy::<Delta>(&state);
    let [clusters, endpoints] = with_endpoints_of_all(&before);
    before.close();

    state.set_mesh(mesh(&two_with_another_balancer()));
    let after = Client::envoy::<Delta>(&state);
    sent(&after, &DeltaDiscoveryRequest { initial_resource_versions: clusters, ..subscribe(Kind::Cluster, &["*"]) });
    assert_eq!(got(&after), Some(vec![ECHO.to_owned()]));
    let both = subscribe(Kind::Endpoints, &[ECHO, OTHER]);
    sent(&after, &DeltaDiscoveryRequest { initial_resource_versions: endpoints, ..both });
    assert_eq!(got(&after), Some(vec![ECHO.to_owned()]), "the other Cluster has not changed");
    assert_eq!(got(&after), None);
}

#[test]
fn a_kind_that_is_not_known_is_not_answered() {
    let state = state(&two());
    let client = Client::new::<Delta>(&state, Dialect::Envoy);
    let mut request = subscribe(Kind::Cluster, &[ECHO]);
    request.type_url = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret".to_owned();
    sent(&client, &request);
    assert_eq!(got(&client), None);
}

/// A policy that selects the workloads of `account` or, if `account` is `None`, all workloads of the namespace.
fn policy(name: &str, namespace: &str, account: Option<&str>, identity: &str) -> String {
    let target = account.map(|account| format!("targetRef: {{kind: ServiceAccount, name: {account}}}, "));
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\n\
         metadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{{}allow: [{{identities: ['{identity}']}}]}}\n",
        target.unwrap_or_default()
    )
}

/// Acknowledges the client's next response and returns the names of the policies in it; `None` without a response.
fn got_policies(client: &Client<'_>) -> Option<Vec<String>> {
    let response = client.next::<Delta>()?;
    client.send::<Delta>(&ack(&response)).expect("within limits");
    assert_eq!(names(&response), ["inbound"]);
    let any = response.resources[0].resource.clone().expect("a resource");
    let policies = leno_xds::inbound::read(&any.value).expect("ours").policies;
    Some(policies.iter().map(|policy| format!("{}/{}", policy.namespace, policy.name)).collect())
}

#[test]
fn a_workload_gets_the_policies_that_select_it_and_hears_of_their_changes_only() {
    let all = |cart: &str, lab: &str| {
        policy("cart", "shop", Some("cart"), cart)
            + &policy("web", "shop", Some("web"), "ns/shop/sa/front")
            + &policy("lab", "lab", None, lab)
    };
    let state = state(&all("ns/shop/sa/web", "*"));
    let of = |namespace, account| Client::of::<Delta>(&state, Dialect::Envoy, namespace, account);
    let (cart, web, lab) = (of("shop", Some("cart")), of("shop", Some("web")), of("lab", Some("cart")));
    let (anybody, nobody) = (of("shop", None), of("default", Some("cart")));
    let clients = [&cart, &web, &lab, &anybody, &nobody];
    for client in clients {
        sent(client, &subscribe(Kind::Listener, &["inbound"]));
    }
    let names = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(
        clients.map(got_policies),
        [&["shop/cart"][..], &["shop/web"], &["lab/lab"], &["shop/cart", "shop/web"], &[]].map(names)
    );

    state.set_mesh(mesh(&all("ns/shop/sa/batch", "*")));
    assert_eq!(clients.map(got_policies), [names(&["shop/cart"]), None, None, names(&["shop/cart", "shop/web"]), None]);
    state.set_mesh(mesh(&all("ns/shop/sa/batch", "ns/lab/sa/a")));
    assert_eq!(clients.map(got_policies), [None, None, names(&["lab/lab"]), None, None]);
    state.set_mesh(mesh(&policy("web", "shop", Some("web"), "ns/shop/sa/front")));
    assert_eq!(
        clients.map(got_policies),
        [names(&[]), None, names(&[]), names(&["shop/web"]), None],
        "a policy that is gone is gone"
    );
    assert!(clients.map(|client| got(client)).iter().all(Option::is_none));
}

#[test]
fn a_workload_hears_which_of_its_ports_its_services_declare_to_speak_http() {
    let http = |endpoint: &str| service("echo", &[endpoint]).replace("{port: 80}", "{port: 80, appProtocol: http}");
    let state = state(&http("10.1.0.1"));
    let of = |ip: &str| Client::at::<Delta>(&state, "default", ip.parse().expect("an address"));
    let (here, elsewhere) = (of("10.1.0.1"), of("10.1.0.2"));
    let got_ports = |client: &Client<'_>| {
        let response = client.next::<Delta>()?;
        client.send::<Delta>(&ack(&response)).expect("within limits");
        let any = response.resources[0].resource.clone().expect("a resource");
        Some(leno_xds::inbound::read(&any.value).expect("ours").http_ports)
    };
    for client in [&here, &elsewhere] {
        sent(client, &subscribe(Kind::Listener, &["inbound"]));
    }
    assert_eq!([&here, &elsewhere].map(got_ports), [Some(vec![8080]), Some(vec![])]);
    state.set_mesh(mesh(&http("10.1.0.2")));
    assert_eq!([&here, &elsewhere].map(got_ports), [Some(vec![]), Some(vec![8080])]);
    state.set_mesh(mesh(&service("echo", &["10.1.0.2"])));
    assert_eq!([&here, &elsewhere].map(got_ports), [None, Some(vec![])]);
    for port in 1..20 {
        state.set_mesh(mesh(&http("10.1.0.1").replace("8080", &port.to_string())));
        assert_eq!(got_ports(&here), Some(vec![port]));
    }
}

/// The Service lists the Pod's IPv6 address, and the Pod's proxy connects from its IPv4 address.
#[test]
fn a_pod_with_addresses_of_both_families_hears_of_the_ports_of_both() {
    const IP: &str = "10.1.0.1";
    const OTHER: &str = "fd00::1";
    let ip = |text: &str| text.parse().expect("an address");
    let text = |endpoint: &str| {
        let text = service("echo", &[endpoint]).replace("{port: 80}", "{port: 80, appProtocol: http}");
        text.replace("addressType: IPv4", "addressType: IPv6")
            .replace(&format!("[{endpoint}]"), &format!("['{endpoint}']"))
    };
    let with_pod = |endpoint: &str| {
        let at = |here: &str, other: &str| (ip(here), MeshedPod { other_ip: other.parse().ok(), ..pod("echo") });
        Arc::new(Mesh::clone(&mesh(&text(endpoint))).with_pods(Arc::new([at(IP, OTHER), at(OTHER, IP)].into())))
    };
    let state = state(&text(OTHER));
    let client = Client::at::<Delta>(&state, "default", ip(IP));
    let got_ports = || {
        let response = client.next::<Delta>()?;
        client.send::<Delta>(&ack(&response)).expect("within limits");
        let any = response.resources[0].resource.clone().expect("a resource");
        Some(leno_xds::inbound::read(&any.value).expect("ours").http_ports)
    };
    sent(&client, &subscribe(Kind::Listener, &["inbound"]));
    assert_eq!(got_ports(), Some(vec![]), "the Pod is not known yet");
    state.set_mesh(with_pod(OTHER));
    assert_eq!(got_ports(), Some(vec![8080]));
    state.set_mesh(with_pod("fd00::2"));
    assert_eq!(got_ports(), Some(vec![]), "the Service has another endpoint");
    state.set_mesh(with_pod(OTHER));
    assert_eq!(got_ports(), Some(vec![8080]));
    state.set_mesh(mesh(&text(OTHER)));
    assert_eq!(got_ports(), Some(vec![]), "the Pod is gone");
}

#[test]
fn policies_are_not_among_the_listeners_of_a_client_that_asks_for_all() {
    let state = state(&two());
    let envoy = Client::new::<Delta>(&state, Dialect::Envoy);
    sent(&envoy, &subscribe(Kind::Listener, &[]));
    let before = got(&envoy);
    assert!(before.iter().flatten().all(|name| name != "inbound"), "{before:?}");
    state.set_mesh(mesh(&(two() + &policy("all", "default", None, "*"))));
    assert_eq!(got(&envoy), None);
}

/// Whether two clients share one kept copy of the resource [`ECHO`].
fn share(kind: Kind, clients: [(&str, &str); 2]) -> bool {
    let state = state(&two());
    let [one, other] = clients.map(|(namespace, account)| {
        let audience = Audience {
            dialect: Dialect::Envoy,
            mutual_tls: false,
            namespace: namespace.into(),
            cluster_domain: state.cluster_domain.clone(),
            service_account: Some(account.into()),
            pod: None,
        };
        let Found::Resource(written) = state.catalog().get(kind, ECHO, &audience) else { panic!("no {kind:?}") };
        written
    });
    Arc::ptr_eq(&one, &other)
}

#[test]
fn what_is_the_same_for_all_service_accounts_or_namespaces_is_written_once() {
    for kind in [Kind::Cluster, Kind::Endpoints, Kind::Route] {
        assert!(share(kind, [("default", "a"), ("default", "b")]), "{kind:?}");
        // Routes of a client's own namespace take precedence over routes of the Service's namespace.
        assert_eq!(share(kind, [("default", "a"), ("shop", "a")]), kind != Kind::Route, "{kind:?}");
    }
}

#[test]
fn whoever_dials_a_pod_hears_of_it_at_that_port_and_of_each_change_of_the_pod() {
    const AT: &str = "10.244.1.7:9102";
    const POD: &str = "-10-244-1-7.shop:9102";
    let state = state("");
    let (client, other) = (Client::new::<Delta>(&state, Dialect::Envoy), Client::new::<Delta>(&state, Dialect::Envoy));
    sent(&client, &subscribe(Kind::Listener, &[AT]));
    sent(&other, &subscribe(Kind::Listener, &["10.244.1.8:9102"]));
    assert_eq!(got(&client), Some(vec![format!("-{AT}")]));
    assert!(got(&other).is_some());

    state.set_mesh(with_pod("10.244.1.7", pod("cart")));
    assert_eq!(got(&client), Some(vec![AT.to_owned()]));
    for kind in [Kind::Cluster, Kind::Endpoints] {
        sent(&client, &subscribe(kind, &[POD]));
        assert_eq!(got(&client), Some(vec![POD.to_owned()]));
    }
    state.set_mesh(with_pod("10.244.1.7", pod("cart")));
    assert_eq!(got(&client), None, "it is the same");
    state.set_mesh(with_pod("10.244.1.7", pod("other")));
    assert_eq!(got(&client), Some(vec![POD.to_owned()]), "its identity is another");

    state.set_mesh(mesh(""));
    let mut gone: Vec<String> = std::iter::from_fn(|| got(&client)).flatten().collect();
    gone.sort();
    let expected = [format!("-{POD}"), format!("-{POD}"), format!("-{AT}")];
    assert_eq!(gone, expected);
    assert_eq!(got(&other), None);

    sent(&client, &unsubscribe(Kind::Listener, &[AT]));
    state.set_mesh(with_pod("10.244.1.7", pod("cart")));
    assert_eq!(std::iter::from_fn(|| got(&client)).flatten().filter(|name| name == AT).count(), 0);
}

#[test]
fn a_client_names_services_in_the_clusters_own_domain() {
    let state = state(&two()).in_cluster("corp.example");
    let client = Client::new::<Delta>(&state, Dialect::Grpc);
    let name = "echo.default.svc.corp.example:80";
    sent(&client, &subscribe(Kind::Listener, &[name, "echo.default.svc.cluster.local:80"]));
    assert_eq!(got(&client), Some(vec![name.to_owned(), "-echo.default.svc.cluster.local:80".to_owned()]));
}
