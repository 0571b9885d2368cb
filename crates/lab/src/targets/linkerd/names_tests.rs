use super::*;
use crate::tls::{CLIENT, SERVER};

#[test]
fn an_identity_is_the_dns_name_of_a_service_account() {
    assert_eq!(identity(CLIENT), "client.lab.serviceaccount.identity.linkerd.lab.local");
    assert_eq!(identity(SERVER), "server.lab.serviceaccount.identity.linkerd.lab.local");
}

#[test]
fn the_path_of_a_service_has_its_port() {
    assert_eq!(path(SocketAddr::from(([10, 96, 0, 50], 16001))), "backends.lab.svc.cluster.local:16001");
}
