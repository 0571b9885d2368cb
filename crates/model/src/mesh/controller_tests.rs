use super::{Controller, NotAController};

#[test]
fn the_controller_of_a_pod_is_the_object_that_a_user_has_written() {
    let of = |kind: &str, name: &str, hash: Option<&str>| {
        Controller::of_pod(kind, name, hash).map(|controller| controller.to_string())
    };
    let cases = [
        ("ReplicaSet", "my-web-7c9f", Some("7c9f"), "deployment/my-web"),
        ("ReplicaSet", "own-set", None, "replicaset/own-set"),
        ("ReplicaSet", "own-set", Some("7c9f"), "replicaset/own-set"),
        ("StatefulSet", "my-db", None, "statefulset/my-db"),
        ("DaemonSet", "agent", None, "daemonset/agent"),
        ("ReplicationController", "old", None, "replicationcontroller/old"),
        ("Job", "nightly-29123456", None, "cronjob/nightly"),
        ("Job", "import-2", None, "job/import-2"),
        ("Job", "-29123456", None, "job/-29123456"),
    ];
    for (kind, name, hash, expected) in cases {
        assert_eq!(of(kind, name, hash).as_deref(), Some(expected), "{kind} {name}");
    }
    assert_eq!(of("Rollout", "canary", None), None);
}

#[test]
fn a_controller_is_read_as_it_is_written() {
    for text in ["deployment/cart", "statefulset/my-db", "cronjob/a.b", "replicationcontroller/x"] {
        assert_eq!(text.parse::<Controller>().expect("a controller").to_string(), text);
    }
    for text in ["", "cart", "deploy/cart", "Deployment/cart", "deployment/", "deployment/a/b", "deployment/A"] {
        assert_eq!(text.parse::<Controller>(), Err(NotAController), "{text}");
    }
}
