use k8s_openapi::api::core::v1::Container;
use serde_json::Value;

use super::*;
use crate::inject::containers::{init, proxy};
use crate::inject::{Options, Settings};

fn read(containers: &[Container]) -> InboundPorts {
    inbound_ports(containers.iter().map(|container| (&*container.name, container.args.as_deref().unwrap_or_default())))
}

#[test]
fn the_ports_in_the_containers_arguments_are_read_back() {
    let settings = Settings {
        skip_inbound_ports: "22,8000-8010".to_owned(),
        opaque_ports: "3306".to_owned(),
        http_ports: "8080".to_owned(),
        ..Settings::default()
    };
    let ports = read(&[init(&settings, &Value::Null), proxy(&settings, &Options::default(), &Value::Null, &[], &[])]);
    assert!(ports.skipped.contains(22) && ports.skipped.contains(8005) && !ports.skipped.contains(3306));
    assert!([4143, 4191, 15_008].iter().all(|own| ports.skipped.contains(*own)), "the proxy's own");
    assert!(ports.opaque.contains(3306) && !ports.opaque.contains(22));
    assert!(ports.http.contains(8080) && !ports.http.contains(3306));
}

#[test]
fn containers_that_say_nothing_of_ports_and_those_of_others_set_nothing() {
    let arguments = ["--skip-inbound-ports=22", "--opaque-ports=22"].map(str::to_owned);
    let garbage = ["--skip-inbound-ports=all".to_owned(), "--skip-inbound-portsx=22".to_owned()];
    let ports = inbound_ports([("migrate", &arguments[..]), ("leno-init", &garbage[..])]);
    assert_eq!(ports, InboundPorts { skipped: "15008".parse().expect("a port"), ..InboundPorts::default() });
}
