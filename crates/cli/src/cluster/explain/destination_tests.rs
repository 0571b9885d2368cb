use serde_json::json;

use super::*;

/// A Service with these ports for TCP, and one for UDP.
fn service(name: &str, ports: &[u16]) -> Service {
    let tcp = ports.iter().map(|port| json!({"name": format!("p{port}"), "port": port}));
    let all: Vec<_> = tcp.chain([json!({"name": "dns", "port": 53, "protocol": "UDP"})]).collect();
    let object = json!({"metadata": {"name": name}, "spec": {"clusterIP": "10.96.0.7", "ports": all}});
    serde_json::from_value(object).expect("a Service")
}

fn find(text: &str, service: &Service) -> Result<Destination, String> {
    let wanted = ServicePort::parse(text, "shop").expect("a Service");
    Destination::of(&wanted, service).map_err(|error| error.to_string())
}

#[test]
fn a_call_goes_to_the_port_that_the_user_names_or_to_the_only_one() {
    for text in ["echo", "echo:50051", "echo.shop.svc.cluster.local"] {
        let address = Some("10.96.0.7:50051".parse().expect("an address"));
        let expected = Destination { authority: "echo.shop:50051".to_owned(), address, is_headless: false };
        assert_eq!(find(text, &service("echo", &[50051])), Ok(expected), "{text}");
    }
}

#[test]
fn a_headless_service_is_found_by_its_name() {
    let mut headless = service("echo", &[50051]);
    headless.spec.as_mut().expect("a spec").cluster_ip = Some("None".to_owned());
    let expected = Destination { authority: "echo.shop:50051".to_owned(), address: None, is_headless: true };
    assert_eq!(find("echo", &headless), Ok(expected));
}

#[test]
fn ports_of_the_service_itself_are_suggested_if_the_user_has_to_choose() {
    let both = service("echo", &[50051, 8080]);
    assert_eq!(find("echo", &both), Err("Service echo.shop has 2 ports; write echo.shop:8080 or 50051".to_owned()));
    assert_eq!(
        find("echo:80", &both),
        Err("Service echo.shop has no port 80; write echo.shop:8080 or 50051".to_owned())
    );
}

#[test]
fn other_services_are_suggested_only_if_there_is_none_of_the_name() {
    let wanted = ServicePort::parse("ehco", "shop").expect("a Service");
    let told = |others: &[Service]| no_service(&wanted, others).to_string();
    assert_eq!(
        told(&[service("web", &[80]), service("echo", &[50051])]),
        "there is no Service ehco in namespace shop; the namespace has echo.shop:50051, web.shop:80"
    );
    let many: Vec<Service> = (0..10).map(|number| service(&format!("s{number}"), &[80])).collect();
    assert!(told(&many).ends_with("s7.shop:80 and 2 more"), "{}", told(&many));
    assert!(told(&[]).ends_with("; list Services with kubectl get services -A"), "{}", told(&[]));
}
