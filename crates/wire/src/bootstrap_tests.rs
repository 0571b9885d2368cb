use super::{Bootstrap, Certificates, Client, bootstrap};

fn options() -> Bootstrap {
    Bootstrap {
        control: "127.0.0.1:15010".parse().expect("an address"),
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
