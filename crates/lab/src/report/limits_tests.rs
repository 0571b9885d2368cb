use super::super::example::{cluster, recorded, run};
use super::*;
use crate::experiment::record::{Run, Version};

#[test]
fn failures_are_added_by_class_and_the_most_frequent_comes_first() {
    let failing = |repeat, unavailable, lost| Run {
        errors: unavailable + lost,
        first_error: Some("Unavailable: no endpoint".to_owned()),
        error_classes: [("connection".to_owned(), lost), ("gRPC UNAVAILABLE".to_owned(), unavailable)].into(),
        ..run(TargetKind::Leno, 0, repeat)
    };
    let recorded = recorded(vec![failing(1, 900, 2), failing(2, 600, 1)]);
    let text = limits(&Results::new(&recorded)).join("\n");
    let wanted =
        "1,503 calls through leno failed (1,500 gRPC UNAVAILABLE, 3 connection); the first: Unavailable: no endpoint";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn late_calls_are_explained_if_the_load_sent_many_of_them() {
    let of = |late| {
        let recorded = recorded(vec![Run { late, ..run(TargetKind::Leno, 0, 1) }]);
        limits(&Results::new(&recorded)).into_iter().find(|limit| limit.starts_with("Late calls."))
    };
    let text = of(501).expect("more than 0.5 % of 100,000 calls");
    assert!(text.contains("In 1 of 1 runs, the load sent more than 0.5 % of its calls"), "{text}");
    assert_eq!(of(500), None);
}

#[test]
fn targets_with_fewer_repeats_than_planned_are_named() {
    let mut recorded =
        recorded(vec![run(TargetKind::Leno, 0, 1), run(TargetKind::Leno, 0, 2), run(TargetKind::Envoy, 0, 1)]);
    recorded.experiment.targets = vec![TargetKind::Leno, TargetKind::Envoy];
    let mut of = |repeats| {
        recorded.experiment.repeats = repeats;
        limits(&Results::new(&recorded)).into_iter().find(|limit| limit.starts_with("Not complete."))
    };
    let wanted = "Not complete. Of 2 planned repeats, at least one case has fewer: envoy 1.";
    assert_eq!(of(2).as_deref(), Some(wanted));
    assert_eq!(of(1), None);
    assert_eq!(of(0), None, "an earlier version did not record the number");
}

#[test]
fn ambient_with_ztunnel_is_an_exception_to_the_texts_about_meshes() {
    let of = |version: &str| {
        let mut recorded = recorded(vec![run(TargetKind::Ambient, 0, 1)]);
        recorded.experiment.targets = vec![TargetKind::Ambient];
        recorded.experiment.versions = vec![Version { target: TargetKind::Ambient, version: version.to_owned() }];
        limits(&Results::new(&recorded)).join("\n")
    };
    let with = of("Envoy 1.40.0 with ztunnel 1.28.0");
    for words in ["one waypoint and one ztunnel serve all backends", "the lab does not check it", "links between"] {
        assert!(with.contains(words), "{words}: {with}");
        assert!(!of("Envoy 1.40.0 with a bare TLS tunnel in place of ztunnel").contains(words), "{words}");
    }
}

#[test]
fn students_interval_is_explained_only_where_it_is_printed() {
    let has = |scenario| {
        let recorded = recorded(vec![Run { scenario, ..run(TargetKind::Leno, 0, 1) }]);
        limits(&Results::new(&recorded)).iter().any(|limit| limit.contains("Student's"))
    };
    assert!(has(Scenario::Ladder) && has(Scenario::Capacity) && has(Scenario::Graph));
    assert!(!has(Scenario::SlowPod) && !has(Scenario::Crowd));
}

#[test]
fn the_luck_of_no_mesh_in_a_cluster_is_that_of_its_services() {
    let of = |is_in_cluster: bool| {
        let mut recorded = recorded(vec![run(TargetKind::Vanilla, 50, 1)]);
        recorded.experiment.targets = vec![TargetKind::Vanilla];
        recorded.experiment.cluster = is_in_cluster.then(cluster);
        limits(&Results::new(&recorded)).join("\n")
    };
    let text = of(true);
    assert!(
        text.contains("Without a mesh, the cluster's Services choose a backend") && !text.contains("netfilter"),
        "{text}"
    );
    assert!(of(false).contains("direct and netfilter rules choose a backend"));
}
