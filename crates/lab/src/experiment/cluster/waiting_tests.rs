use serde_json::json;

use super::*;

fn pod(container: &str, state: &serde_json::Value) -> Pod {
    let pod = json!({
        "metadata": {"name": "backend-0", "uid": "u1"},
        "spec": {"nodeName": "node1", "containers": []},
        "status": {"containerStatuses": [{
            "name": container, "image": "leno:0.1.0", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        }]},
    });
    serde_json::from_value(pod).expect("a Pod")
}

fn waiting(reason: &str) -> Pod {
    pod("leno", &json!({"waiting": {"reason": reason, "message": format!("message of\n{reason}")}}))
}

/// Checks a waiting container several times, and returns the results. Each item of `looks` is the time of a check, in
/// s, and the reason why the container waits at that time.
fn looks(looks: &[(u64, &str)]) -> Vec<Option<String>> {
    let (mut waiting_for, start) = (Waiting::new(&Nodes::default()), Instant::now());
    let look = |(s, reason): &(u64, &str)| waiting_for.hopeless(&waiting(reason), start + Duration::from_secs(*s));
    looks.iter().map(look).collect()
}

#[test]
fn a_failed_pull_is_final_after_30_s() {
    let found = looks(&[(0, "ErrImagePull"), (10, "ImagePullBackOff"), (29, "ImagePullBackOff")]);
    assert_eq!(found, [None, None, None]);
    let found = looks(&[(0, "ErrImagePull"), (30, "ImagePullBackOff")]);
    let wanted = "ImagePullBackOff after 30 s: the node node1 cannot pull the image leno:0.1.0 of the container leno \
        (message of ErrImagePull); put the image into a registry that the node reaches, or name another image with --image";
    assert_eq!(found[1].as_deref(), Some(wanted));
}

#[test]
fn the_second_back_off_is_final_at_once() {
    let [.., last] = &looks(&[
        (0, "ErrImagePull"),
        (1, "ImagePullBackOff"),
        (2, "ImagePullBackOff"),
        (12, "ErrImagePull"),
        (13, "ImagePullBackOff"),
    ])[..] else {
        panic!("no look")
    };
    assert!(last.as_ref().is_some_and(|why| why.starts_with("ImagePullBackOff after 13 s: ")), "{last:?}");
}

#[test]
fn a_pull_that_succeeds_is_forgotten() {
    let found = looks(&[
        (0, "ErrImagePull"),
        (1, "ImagePullBackOff"),
        (20, "ContainerCreating"),
        (40, "ErrImagePull"),
        (41, "ImagePullBackOff"),
    ]);
    assert_eq!(found, [None, None, None, None, None]);
}

#[test]
fn a_replaced_pod_starts_anew() {
    let (mut looked, start) = (Waiting::new(&Nodes::default()), Instant::now());
    let mut failing = waiting("ErrImagePull");
    assert_eq!(looked.hopeless(&failing, start), None);
    failing.metadata.uid = Some("u2".to_owned());
    assert_eq!(looked.hopeless(&failing, start + PULL_PATIENCE), None);
}

#[test]
fn the_image_of_a_mesh_is_not_changed_by_an_option_of_the_lab() {
    let failing = pod("linkerd-proxy", &json!({"waiting": {"reason": "ErrImagePull"}}));
    let (mut looked, start) = (Waiting::new(&Nodes::default()), Instant::now());
    assert_eq!(looked.hopeless(&failing, start), None);
    let why = looked.hopeless(&failing, start + PULL_PATIENCE).expect("a reason");
    assert!(
        why.ends_with("container linkerd-proxy; the mesh names this image: repair the mesh's installation"),
        "{why}"
    );
}

#[test]
fn other_reasons_are_final_at_once() {
    let why = looks(&[(0, "CrashLoopBackOff")]).remove(0).expect("a reason");
    assert_eq!(why, "CrashLoopBackOff in its container leno with the image leno:0.1.0 on the node node1");
    let why = looks(&[(0, "InvalidImageName")]).remove(0).expect("a reason");
    assert!(why.contains("leno:0.1.0 on the node node1; ") && why.ends_with("--image"), "{why}");
}

#[test]
fn a_container_that_is_being_created_may_still_start() {
    assert_eq!(looks(&[(0, "ContainerCreating"), (100, "ContainerCreating")]), [None, None]);
    let running = pod("leno", &json!({"running": {}}));
    assert_eq!(Waiting::new(&Nodes::default()).hopeless(&running, Instant::now()), None);
    let new = serde_json::from_value(json!({"metadata": {"name": "backend-0"}, "status": {}})).expect("a Pod");
    assert_eq!(Waiting::new(&Nodes::default()).hopeless(&new, Instant::now()), None);
}

/// The Pod `backend-0`, which the scheduler cannot place.
fn unplaced() -> Pod {
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/2 nodes are available:\n1 Insufficient cpu",
    });
    let pod = json!({"metadata": {"name": "backend-0"}, "status": {"conditions": [condition]}});
    serde_json::from_value(pod).expect("a Pod")
}

#[test]
fn a_pod_that_does_not_fit_on_its_node_is_named_with_the_schedulers_reason() {
    let nodes = Nodes::default();
    nodes.fix(&[waiting("ContainerCreating")]);
    let (mut looked, start) = (Waiting::new(&nodes), Instant::now());
    assert_eq!(looked.hopeless(&unplaced(), start), None);
    assert_eq!(looked.hopeless(&waiting("ContainerCreating"), start + PLACEMENT_PATIENCE / 2), None);
    assert_eq!(looked.hopeless(&unplaced(), start + PLACEMENT_PATIENCE), None, "the Pod was placed meanwhile");
    let why = looked.hopeless(&unplaced(), start + PLACEMENT_PATIENCE * 2).expect("a reason");
    let wanted = "the scheduler cannot place it on the node node1, where this Pod of the first mesh runs: 0/2 nodes are \
        available: 1 Insufficient cpu; free resources on this node, or use fewer Pods with --backends and --load-pods";
    assert_eq!(why, wanted);
}

#[test]
fn a_pod_that_may_run_anywhere_waits_for_a_node() {
    let (mut looked, start) = (Waiting::new(&Nodes::default()), Instant::now());
    assert_eq!(looked.hopeless(&unplaced(), start), None);
    assert_eq!(looked.hopeless(&unplaced(), start + PLACEMENT_PATIENCE * 2), None);
}
