use leno_model::discovery::Subject;
use leno_model::mesh::ClusterKey;

use super::{RouteName, cluster_key, listener_subject, listener_subject_in};

fn echo(namespace: &str, port: u16) -> ClusterKey {
    ClusterKey { namespace: namespace.into(), service: "echo".into(), port }
}

#[test]
fn a_clusters_key_is_its_name() {
    assert_eq!(cluster_key("echo.shop:50051"), Some(echo("shop", 50051)));
    assert_eq!(cluster_key(&echo("shop", 80).to_string()), Some(echo("shop", 80)));
}

#[test]
fn a_cluster_has_no_other_name() {
    for text in
        ["", "echo", "echo.shop", "echo.shop:", "echo.shop:0", "echo.shop:070", "echo.shop:+7", "echo.shop:65536"]
    {
        assert_eq!(cluster_key(text), None, "{text}");
    }
    for text in ["Echo.shop:80", ".shop:80", "echo.:80", "echo.shop.svc:80", "echo.shop:80:80", " echo.shop:80"] {
        assert_eq!(cluster_key(text), None, "{text}");
    }
}

#[test]
fn a_listener_is_named_in_every_way_that_an_authority_is_written() {
    let service = |namespace, port| Some(Subject::Service(echo(namespace, port)));
    assert_eq!(listener_subject("echo", "shop"), service("shop", 80));
    assert_eq!(listener_subject("ECHO:50051", "shop"), service("shop", 50051));
    assert_eq!(listener_subject("echo.lab:50051", "shop"), service("lab", 50051));
    assert_eq!(listener_subject("echo.lab.svc.cluster.local.:50051", "shop"), service("lab", 50051));
    assert_eq!(listener_subject("www.example.com", "shop"), None);
}

#[test]
fn a_listener_is_named_by_the_address_that_was_dialled() {
    let address = |text: &str| Some(Subject::Address(text.parse().expect("an address")));
    assert_eq!(listener_subject("10.96.0.10:50051", "shop"), address("10.96.0.10:50051"));
    assert_eq!(listener_subject("[fd00::1]:50051", "shop"), address("[fd00::1]:50051"));
    assert_eq!(listener_subject("[::ffff:10.96.0.10]:50051", "shop"), address("10.96.0.10:50051"));
}

#[test]
fn a_service_that_is_called_inbound_is_named_with_its_namespace_or_its_port() {
    let service = |namespace, port| Some(Subject::Service(ClusterKey { namespace, service: "inbound".into(), port }));
    assert_eq!(listener_subject("inbound", "shop"), Some(Subject::Inbound));
    assert_eq!(listener_subject("inbound.lab", "shop"), service("lab".into(), 80));
    assert_eq!(listener_subject("inbound:80", "shop"), service("shop".into(), 80));
}

#[test]
fn names_are_read_as_they_are_written() {
    let address = Subject::Address("[::1]:2".parse().expect("an address"));
    for name in [Subject::Service(echo("shop", 1)), address, Subject::Inbound] {
        assert_eq!(listener_subject(&name.to_string(), "elsewhere"), Some(name));
    }
    for name in [RouteName::Mesh, RouteName::Cluster(echo("shop", 1))] {
        assert_eq!(RouteName::parse(&name.to_string()), Some(name));
    }
}

#[test]
fn the_name_of_a_service_ends_with_the_clusters_own_domain() {
    let read = |name| listener_subject_in(name, "shop", "corp.example");
    assert_eq!(read("echo.lab.svc.Corp.Example:80"), Some(Subject::Service(echo("lab", 80))));
    assert_eq!(read("echo.lab.svc"), Some(Subject::Service(echo("lab", 80))));
    for other in ["echo.lab.svc.cluster.local", "echo.lab.svc.corp", "echo.lab.corp.example", "echo.lab.svc."] {
        assert_eq!(read(other).is_some(), other == "echo.lab.svc.", "{other}");
    }
}
