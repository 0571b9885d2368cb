use std::collections::HashSet;

use super::*;

#[test]
fn the_client_and_every_pod_have_an_ip_address_of_their_own() {
    let backends = [16_001, 16_002, 16_003].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let pods = backends.iter().enumerate().map(|(index, &backend)| new_pod(index, backend).expect("a free port"));
    let pods: Vec<Pod> = pods.collect();
    let addresses: HashSet<_> = pods.iter().map(|pod| pod.address.ip()).chain([l4::pod_ip(CLIENT_POD)]).collect();
    assert_eq!(addresses.len(), pods.len() + 1);
    for (pod, backend) in pods.iter().zip(backends) {
        assert_eq!(pod.address.port(), backend.port());
        assert_eq!(pod.inbound.ip(), pod.address.ip());
        assert_ne!(pod.inbound.port(), pod.address.port());
        assert!(!pod.address.ip().is_loopback());
    }
}
