use super::*;

#[test]
fn the_servers_keep_their_names_and_answer_with_them() {
    let set = backends(5, "leno:0.1.0").expect("an object");
    let spec = set.spec.expect("a spec");
    assert_eq!(spec.replicas, Some(5));
    let container = &spec.template.spec.as_ref().expect("a Pod").containers[0];
    assert_eq!(container.name, CONTAINER);
    assert_eq!(container.image.as_deref(), Some("leno:0.1.0"));
    let args = container.args.as_ref().expect("arguments");
    assert!(args.contains(&"--name=$(POD_NAME)".to_owned()), "{args:?}");
    assert_eq!(pod_name(BACKEND, 4), "backend-4");
}

#[test]
fn the_pods_fit_the_strictest_pod_security_standard() {
    for set in [backends(1, "leno").expect("an object"), loads(1, "leno").expect("an object")] {
        let pod = set.spec.expect("a spec").template.spec.expect("a Pod");
        let security = pod.security_context.expect("a security context");
        assert_eq!(security.run_as_non_root, Some(true));
        assert_eq!(security.seccomp_profile.expect("a profile").type_, "RuntimeDefault");
        let container = pod.containers[0].security_context.as_ref().expect("a security context");
        assert_eq!(container.allow_privilege_escalation, Some(false));
        let dropped = container.capabilities.as_ref().and_then(|capabilities| capabilities.drop.clone());
        assert_eq!(dropped, Some(vec!["ALL".to_owned()]));
        assert_eq!(pod.automount_service_account_token, Some(false));
        let gates = pod.scheduling_gates.expect("a gate");
        assert_eq!(gates.iter().map(|gate| &gate.name[..]).collect::<Vec<_>>(), [GATE]);
    }
}

#[test]
fn a_namespace_carries_the_labs_label_so_that_it_can_be_cleaned() {
    assert!(is_of_the_lab(&namespace(Mesh::Leno)) && !is_of_the_lab(&Namespace::default()));
    let labels = namespace(Mesh::Leno).metadata.labels.expect("labels");
    let (name, value) = labels.iter().find(|(_, value)| *value == MANAGER).expect("the lab's label");
    assert_eq!(format!("{name}={value}"), of_the_lab());
}

#[test]
fn the_service_has_both_ports_of_the_servers() {
    let ports = service().expect("an object").spec.expect("a spec").ports.expect("ports");
    let numbers: Vec<i32> = ports.iter().map(|port| port.port).collect();
    assert_eq!(numbers, [i32::from(GRPC_PORT), i32::from(HTTP_PORT)]);
}
