use super::{Bootstrap, Certificates, Client, bootstrap};

fn options() -> Bootstrap {
    Bootstrap {
        control: "127.0.0.1:15010".to_owned(),
        node: "web-1".to_owned(),
        namespace: "shop".to_owned(),
        outbound: "127.0.0.1:4140".parse().expect("an address"),
        admin: "127.0.0.1:9901".parse().expect("an address"),
        certificates: None,
    }
}

fn with_certificates() -> Bootstrap {
    let certificates = Certificates { chain: "svid.pem".into(), key: "key.pem".into(), bundle: "trust.pem".into() };
    Bootstrap { certificates: Some(certificates), ..options() }
}

#[test]
fn every_client_says_who_and_where_it_is() {
    for client in [Client::Envoy, Client::Grpc] {
        let node = bootstrap(client, &options())["node"].clone();
        assert_eq!(node["id"], "web-1");
        assert_eq!(node["metadata"]["leno.dev"]["namespace"], "shop");
        assert_eq!(node["metadata"]["leno.dev"]["mutual-tls"], false);
        assert_eq!(bootstrap(client, &with_certificates())["node"]["metadata"]["leno.dev"]["mutual-tls"], true);
    }
}

#[test]
fn a_client_without_certificates_has_no_file_in_its_bootstrap() {
    for client in [Client::Envoy, Client::Grpc] {
        assert!(!bootstrap(client, &options()).to_string().contains(".pem"));
        let text = bootstrap(client, &with_certificates()).to_string();
        assert!(["svid.pem", "key.pem", "trust.pem"].iter().all(|file| text.contains(file)), "{text}");
    }
}

#[test]
fn clients_are_named_as_they_are_printed() {
    for client in [Client::Envoy, Client::Grpc] {
        assert_eq!(client.to_string().parse(), Ok(client));
    }
    assert!("nginx".parse::<Client>().is_err());
}

#[test]
fn a_control_plane_with_a_name_is_reached_by_tls_and_an_address_of_this_machine_in_clear() {
    let credentials = |control: &str| {
        let options = Bootstrap { control: control.to_owned(), ..with_certificates() };
        bootstrap(Client::Grpc, &options)["xds_servers"][0]["channel_creds"][0]["type"].clone()
    };
    for name in ["leno-control.leno.svc:15010", "localhost:15010", "10.0.0.1:15010", "[fd00::1]:15010"] {
        assert_eq!(credentials(name), "tls", "{name}");
    }
    for address in ["127.0.0.1:15010", "[::1]:15010"] {
        assert_eq!(credentials(address), "insecure", "{address}");
    }
}

#[test]
fn envoy_looks_up_the_name_of_the_control_plane() {
    let cluster = |control: &str| {
        let options = Bootstrap { control: control.to_owned(), ..options() };
        let cluster = bootstrap(Client::Envoy, &options)["static_resources"]["clusters"][0].clone();
        let endpoint = &cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"];
        (cluster["type"].clone(), endpoint["address"]["socket_address"].clone())
    };
    let address = |host: &str| serde_json::json!({ "address": host, "port_value": 15_010 });
    assert_eq!(cluster("leno-control.leno.svc:15010"), ("STRICT_DNS".into(), address("leno-control.leno.svc")));
    assert_eq!(cluster("[fd00::1]:15010"), ("STATIC".into(), address("fd00::1")));
}
