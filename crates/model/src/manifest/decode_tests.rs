use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::de::DeserializeOwned;

use super::decode;
use crate::manifest::tree::documents;

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Vec<String>> {
    let document = documents(text).expect("YAML").remove(0);
    decode(&document).map_err(|misfits| {
        let line = |misfit: &super::Misfit| {
            format!("{}: {}: {}; {}", misfit.mark().line, misfit.path, misfit.what, misfit.fix)
        };
        misfits.iter().map(line).collect()
    })
}

fn misfits(text: &str) -> Vec<String> {
    read::<ServiceSpec>(text).expect_err("a field that does not fit")
}

#[test]
fn a_full_object_is_read_as_kubernetes_reads_it() {
    let text = "
apiVersion: v1
kind: Service
metadata:
  name: echo
  creationTimestamp: 2026-01-02T03:04:05Z
  labels: {a: b, quoted: '1', empty: ''}
  managedFields:
  - {manager: kubectl, fieldsV1: {'f:spec': {'f:ports': {.: {}, n: 1, t: true, x: null, l: [1.5]}}}}
spec:
  ports:
  - {name: grpc, port: 50051, targetPort: grpc}
  - {name: web, port: 80, targetPort: 8080, protocol: TCP}
  publishNotReadyAddresses: true
  selector:
status:
  loadBalancer: {}
";
    let service: Service = read(text).expect("a Service");
    let spec = service.spec.expect("spec");
    let ports = spec.ports.expect("ports");
    assert_eq!(ports[0].target_port, Some(IntOrString::String("grpc".to_owned())));
    assert_eq!(ports[1].target_port, Some(IntOrString::Int(8080)));
    assert_eq!((ports[0].port, ports[1].name.as_deref()), (50051, Some("web")));
    assert_eq!(spec.publish_not_ready_addresses, Some(true));
    assert_eq!(spec.selector, None);
    let labels = service.metadata.labels.expect("labels");
    assert_eq!(labels["quoted"], "1");
    let fields = &service.metadata.managed_fields.expect("managedFields")[0].fields_v1;
    let fields = serde_json::to_value(fields).expect("plain data");
    assert_eq!(fields["f:spec"]["f:ports"]["l"][0], 1.5);
}

#[test]
fn unknown_fields_are_all_named_with_what_was_meant() {
    let text = "prots:\n- port: 80\nports:\n- prot: 80\n  nmae: a\nclusterIp: None\nreplicas: 3\n\"a\\nb\": 1\n";
    assert_eq!(
        misfits(text),
        [
            "1: prots: ServiceSpec has no such field; did you mean ports?",
            "4: ports[0].prot: ServicePort has no such field; did you mean port?",
            "5: ports[0].nmae: ServicePort has no such field; did you mean name?",
            "6: clusterIp: ServiceSpec has no such field; did you mean clusterIP?",
            "7: replicas: ServiceSpec has no such field; remove it",
            "8: [\"a\\nb\"]: ServiceSpec has no such field; remove it",
        ]
    );
}

#[test]
fn values_of_the_wrong_type_say_which_is_right() {
    for (text, line) in [
        ("ports:\n- port: '80'\n", "2: ports[0].port: \"80\" is not a whole number; write digits without quotes"),
        ("ports:\n- port: 80.5\n", "2: ports[0].port: 80.5 is not a whole number; write digits"),
        (
            "ports:\n- port: 99999999999\n",
            "2: ports[0].port: 99999999999 is out of range; write a whole number from -2147483648 to 2147483647",
        ),
        ("ports:\n- port: 0x50\n", "2: ports[0].port: \"0x50\" is not a whole number; write digits without quotes"),
        ("ports:\n- port: {}\n", "2: ports[0].port: a mapping is not a whole number; write digits"),
        ("ports:\n- name: 80\n", "2: ports[0].name: 80 is not text; put it in quotes"),
        ("ports:\n- name: true\n", "2: ports[0].name: true is not text; put it in quotes"),
        ("ports: {port: 80}\n", "1: ports: a mapping is not a list; start each item with a dash"),
        ("ports:\n-\n", "2: ports[0]: nothing is not ServicePort; write its fields as `key: value` lines"),
        ("ports: [80]\n", "1: ports[0]: 80 is not ServicePort; write its fields as `key: value` lines"),
        ("selector: [a]\n", "1: selector: a list is not a mapping; write `key: value` lines"),
        ("selector:\n  a.b/c: 1\n", "2: selector[\"a.b/c\"]: 1 is not text; put it in quotes"),
        (
            "publishNotReadyAddresses: yes\n",
            "1: publishNotReadyAddresses: \"yes\" is not true or false; write true or false without quotes",
        ),
        ("text\n", "1: : \"text\" is not ServiceSpec; write its fields as `key: value` lines"),
    ] {
        assert_eq!(misfits(text), [line], "{text:?}");
    }
}

#[test]
fn whole_numbers_of_every_size_are_described_alike() {
    fn line<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        read::<T>(text).expect_err("a value that does not fit").remove(0)
    }
    let quoted = "1: [0]: \"503\" is not a whole number; write digits without quotes";
    assert_eq!(line::<Vec<u16>>("['503']\n"), quoted);
    assert_eq!(line::<Vec<u8>>("['503']\n"), quoted);
    assert_eq!(line::<Vec<u64>>("['503']\n"), quoted);
    assert_eq!(line::<Vec<u16>>("[[503]]\n"), "1: [0]: a list is not a whole number; write digits");
    let large = "1: [0]: 70000 is out of range; write a whole number from 0 to 65535";
    assert_eq!(line::<Vec<u16>>("[70000]\n"), large);
    let negative = "1: [0]: -129 is out of range; write a whole number from -128 to 127";
    assert_eq!(line::<Vec<i8>>("[-129]\n"), negative);
}
