//! Resources are a control plane's bytes, and their names a client's: whatever they are, they are read or refused in one
//! line, and what was read is written as what is read the same.
#![no_main]

use leno_model::mesh::Cluster;
use leno_wire::name::{RouteName, cluster_key, listener_subject};
use leno_wire::{Dialect, Unreadable, View, cluster, endpoints, listener, routes};
use libfuzzer_sys::fuzz_target;
use prost::Message;

const VIEW: View<'_> = View { dialect: Dialect::Envoy, mutual_tls: None };

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_name(text);
    }
    let read_cluster = taken(cluster::read(bytes));
    if let Some(read) = &read_cluster {
        let again = cluster::read(&cluster::write(read, VIEW).encode_to_vec());
        assert_eq!(again.as_ref(), Ok(read));
    }
    if let Some(read) = taken(endpoints::read(bytes)) {
        check_endpoints(&read);
    }
    taken(listener::read(bytes));
    if let Some(read) = taken(routes::read(bytes)) {
        let written = routes::write(&read.key, read.table.as_ref(), Dialect::Envoy).encode_to_vec();
        assert!(routes::read(&written).is_ok());
    }
});

fn taken<T>(read: Result<T, Unreadable>) -> Option<T> {
    read.inspect_err(|error| assert!(!error.to_string().contains('\n'), "{error}")).ok()
}

fn check_name(text: &str) {
    if let Some(key) = cluster_key(text) {
        assert_eq!(key.to_string(), text);
    }
    if let Some(subject) = listener_subject(text, "default") {
        assert_eq!(listener_subject(&subject.to_string(), "elsewhere"), Some(subject));
    }
    if let Some(name) = RouteName::parse(text) {
        assert_eq!(name.to_string(), text);
    }
}

fn check_endpoints(read: &endpoints::Endpoints) {
    assert!(read.ready.is_sorted_by(|a, b| a.address < b.address));
    assert!(read.unready.is_sorted_by(|a, b| a.address < b.address));
    let whole = Cluster {
        key: read.key.clone(),
        balancer: Default::default(),
        protocol: Default::default(),
        settings: Default::default(),
        cluster_ips: Box::default(),
        endpoints: read.ready.clone(),
        unready_endpoints: read.unready.clone(),
    };
    assert_eq!(endpoints::read(&endpoints::write(&whole, VIEW).encode_to_vec()).as_ref(), Ok(read));
}
