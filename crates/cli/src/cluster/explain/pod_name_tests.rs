use serde_json::json;

use super::*;

fn parsed(text: &str) -> Option<String> {
    PodName::parse(text, "shop").map(|name| format!("{} {:?}", name.name(), name.port))
}

/// The slices of a headless Service with two Pods of a StatefulSet, a Pod without a hostname, and a Pod that is not ready.
fn slices(ports: &[u16]) -> Vec<EndpointSlice> {
    let ports: Vec<_> = ports.iter().map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
    let ready = json!({"ready": true});
    let slice = json!({
        "metadata": {"name": "db-x"}, "addressType": "IPv4", "ports": ports,
        "endpoints": [
            {"addresses": ["10.0.0.1"], "hostname": "db-0", "conditions": ready},
            {"addresses": ["10.0.0.2"], "hostname": "db-1", "conditions": ready},
            {"addresses": ["10.0.0.3"], "conditions": ready},
            {"addresses": ["10.0.0.4"], "hostname": "db-3", "conditions": {"ready": false}},
        ],
    });
    vec![serde_json::from_value(slice).expect("an EndpointSlice")]
}

fn found(text: &str, ports: &[u16]) -> Result<Destination, String> {
    let name = PodName::parse(text, "shop").expect("the name of a Pod");
    name.among(&slices(ports)).map_err(|error| error.to_string())
}

#[test]
fn a_pod_has_a_name_below_its_service() {
    for text in ["db-0.db:5432", "db-0.db.shop:5432", "DB-0.db.shop.svc:5432", "db-0.db.shop.svc.cluster.local.:5432"] {
        assert_eq!(parsed(text).as_deref(), Some("db-0.db.shop Some(5432)"), "{text}");
    }
    assert_eq!(parsed("db-0.db").as_deref(), Some("db-0.db.shop None"));
    for text in ["db", "db:80", "db.shop.svc", "db.shop.svc.cluster.local", "a.b.c.d", "a..c", "a.b:x", "a.b,c=d.e"] {
        assert_eq!(parsed(text), None, "{text}");
    }
}

#[test]
fn a_call_to_a_pod_goes_to_the_pods_own_address_and_port() {
    for (text, authority, address) in [
        ("db-1.db", "db-1.db.shop:5432", "10.0.0.2:5432"),
        ("db-1.db:9000", "db-1.db.shop:9000", "10.0.0.2:9000"),
        ("10-0-0-3.db:5432", "10-0-0-3.db.shop:5432", "10.0.0.3:5432"),
    ] {
        let address = Some(address.parse().expect("an address"));
        let expected = Destination { authority: authority.to_owned(), address, is_headless: false };
        assert_eq!(found(text, &[5432]), Ok(expected), "{text}");
    }
}

#[test]
fn a_pod_that_dns_does_not_know_is_an_error_that_names_the_others() {
    for text in ["db-7.db:5432", "db-3.db:5432"] {
        let error = found(text, &[5432]).expect_err("it has no name");
        assert!(error.starts_with("Service db.shop has no ready endpoint db-"), "{error}");
        assert!(error.ends_with("the Service has the endpoints 10-0-0-3, db-0, db-1"), "{error}");
    }
    let none = PodName::parse("db-0.db", "shop").expect("the name of a Pod").among(&[]).expect_err("no endpoint");
    assert!(none.fix.starts_with("kubectl get endpointslices -n shop -l kubernetes.io/service-name=db"), "{none}");
}

#[test]
fn a_pod_with_several_ports_needs_one() {
    let error = found("db-0.db", &[5432, 9000]).expect_err("two ports");
    assert!(error.contains("write a port of the Pod: db-0.db.shop:PORT"), "{error}");
    assert!(found("db-0.db:9000", &[5432, 9000]).is_ok());
}
