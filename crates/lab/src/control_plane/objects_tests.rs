use super::*;

const PLAN: Plan = Plan { services: 5, endpoints: 3, proxies: 3, subscriptions: 1 };

fn are_ready(slice: &EndpointSlice) -> Vec<Option<bool>> {
    let endpoints = slice.endpoints.as_ref().expect("it has some");
    endpoints.iter().map(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready)).collect()
}

#[test]
fn a_called_service_has_one_endpoint_that_is_served_and_as_many_endpoints_as_the_others() {
    let served = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 9), 50_051);
    let slice = slice(&PLAN, CALLED[0], Some(served));
    assert_eq!(are_ready(&slice), [Some(true), Some(false), Some(false)]);
    assert_eq!(slice.endpoints.expect("it has some")[0].addresses, ["192.0.2.9"]);
    assert_eq!(slice.ports.expect("it has a port")[0].port, Some(50_051));
}

#[test]
fn other_services_have_only_ready_endpoints() {
    let served = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 9), 50_051);
    let slice = slice(&PLAN, 4, Some(served));
    assert_eq!(are_ready(&slice), [Some(true); 3]);
    assert_eq!(slice.metadata.labels.expect("it has some")["kubernetes.io/service-name"], "service-4");
}

#[test]
fn all_that_is_made_says_whose_it_is() {
    let labels = [namespace("a").metadata, account("b").metadata, service(1).metadata, slice(&PLAN, 1, None).metadata];
    for labels in labels.map(|metadata| metadata.labels.expect("it has some")) {
        assert_eq!(labels["app.kubernetes.io/managed-by"], NAMESPACE);
    }
}
