use super::*;

const CART: Name<'_> = Name { namespace: "shop", name: "cart" };

fn subnet() -> Subnet {
    "10.244.78.0/28".parse().expect("a network")
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Reads the only Service in the directory of manifests.
fn only_service(directory: &Path) -> Service {
    let mut services = services(directory).expect("it can be listed");
    assert_eq!(services.len(), 1, "{services:?}");
    services.remove(0)
}

#[test]
fn the_runs_of_a_service_share_one_address_and_all_ports() {
    let directory = directory();
    put_service(directory.path(), CART, &[8080], subnet()).expect("it is written");
    let first = only_service(directory.path());
    put_service(directory.path(), CART, &[9090], subnet()).expect("it is written");
    let second = only_service(directory.path());
    assert_eq!(first.cluster_ips, second.cluster_ips);
    let ports: Vec<u16> = second.ports.iter().map(|port| port.port).collect();
    assert_eq!(ports, [8080, 9090]);
}

#[test]
fn a_service_has_the_same_address_again() {
    let (one, other) = (directory(), directory());
    for directory in [&one, &other] {
        put_service(directory.path(), CART, &[8080], subnet()).expect("it is written");
    }
    assert_eq!(only_service(one.path()).cluster_ips, only_service(other.path()).cluster_ips);
}

#[test]
fn addresses_are_given_once_until_none_is_left() {
    let directory = directory();
    let names: Vec<String> = (0..15).map(|number| format!("s{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let result = put_service(directory.path(), Name { namespace: "shop", name }, &[8080], subnet());
        if number < 14 {
            result.expect("there are 14");
        } else {
            let error = result.expect_err("there are 14").to_string();
            assert!(error.contains("10.244.78.0/28") && error.contains("--service-subnet"), "{error}");
        }
    }
    let services = services(directory.path()).expect("it can be listed");
    let addresses: BTreeSet<_> = services.iter().flat_map(|service| &service.cluster_ips).collect();
    assert_eq!(addresses.len(), 14);
}

#[test]
fn a_service_of_the_users_own_comes_first_and_names_the_ports() {
    let directory = directory();
    put_service(directory.path(), CART, &[8080], subnet()).expect("it is written");
    let own = |address: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: cart, namespace: shop}}, \
             spec: {{{address}ports: [{{name: grpc, port: 8080}}]}}}}"
        );
        fs::write(directory.path().join("config.1.cart.yaml"), text).expect("it is written");
    };
    own("clusterIP: 10.9.9.9, ");
    put_service(directory.path(), CART, &[8080], subnet()).expect("there is one");
    let service = only_service(directory.path());
    assert_eq!(*service.cluster_ips, ["10.9.9.9".parse::<IpAddr>().expect("an address")]);

    let workload = "ns/shop/sa/cart".parse().expect("a workload");
    let address = Ipv4Addr::new(10, 244, 77, 2);
    let endpoint = Endpoint { run: 2, service: CART, address, workload: &workload, ports: &[8080] };
    assert!(endpoint_manifest(&endpoint, Some(&service)).contains("- name: \"grpc\"\n  port: 8080\n"));

    own("");
    let error = put_service(directory.path(), CART, &[8080], subnet()).expect_err("it has no address").to_string();
    assert!(error.contains("config.1.cart.yaml") && error.contains("clusterIP"), "{error}");
}

#[test]
fn an_endpoint_is_read_by_the_mesh_as_it_was_meant_and_goes_when_told() {
    let directory = directory();
    let workload = "ns/shop/sa/till".parse().expect("a workload");
    let address = Ipv4Addr::new(10, 244, 77, 2);
    let endpoint = Endpoint { run: 2, service: CART, address, workload: &workload, ports: &[8080, 9090] };
    put_endpoint(directory.path(), &endpoint).expect("it is written");
    let path = endpoint_file(directory.path(), 2);
    let text = fs::read_to_string(&path).expect("it is there");
    let file = SourceFile { path: path.to_string_lossy().into_owned(), text };
    let objects = parse_file(&file, DEFAULT_NAMESPACE).expect("it has no mistakes").objects;
    let [Object::EndpointSlice(slice)] = &objects[..] else { panic!("{objects:?}") };
    assert_eq!((&*slice.service, &*slice.identity.namespace), ("cart", "shop"));
    assert_eq!(slice.addresses.first().map(|address| address.ip), Some(IpAddr::V4(address)));
    let ports: Vec<_> = slice.ports.iter().map(|port| (&*port.name, port.port)).collect();
    assert_eq!(ports, [("p8080", 8080), ("p9090", 9090)]);
    let proxy = slice.proxy.as_ref().expect("there is one before it");
    assert_eq!((proxy.identity.to_string().as_str(), proxy.inbound_port), ("ns/shop/sa/till", Some(4143)));

    assert!(remove_endpoint(directory.path(), 2).expect("it can be removed"));
    assert!(!remove_endpoint(directory.path(), 2).expect("there is none"));
}
