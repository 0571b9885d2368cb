use super::*;
use crate::experiment::record::Condition;
use crate::report::example::{recorded, run};

fn meshes(image: &str) -> Vec<(Mesh, Version)> {
    let of = |mesh: Mesh, version: &str| (mesh, Version { target: mesh.target(), version: version.to_owned() });
    vec![of(Mesh::None, "no mesh"), of(Mesh::Leno, image)]
}

#[test]
fn the_image_comes_from_where_the_control_plane_comes() {
    let image_of = |control: &str| image(&meshes(control));
    assert_eq!(image_of("registry.example/mesh/leno-control:0.2.0"), "registry.example/mesh/leno:0.2.0");
    assert_eq!(image_of("leno-control:0.1.0"), "leno:0.1.0");
    assert_eq!(image_of("r.example/leno-control:0.2.0@sha256:ab"), "r.example/leno:0.2.0");
    assert_eq!(image_of("r.example/leno-control@sha256:ab"), USUAL_IMAGE);
    assert_eq!(image_of("registry.example/other:1"), USUAL_IMAGE);
    assert_eq!(image(&[]), USUAL_IMAGE);
}

fn broken() -> Error {
    Error::Cluster {
        what: "the Pod leno-lab-linkerd/load-0 has no container linkerd-proxy".to_owned(),
        why: "x".to_owned(),
    }
}

#[test]
fn only_a_mesh_that_the_lab_found_itself_may_be_left_out() {
    assert!(may_be_left_out(Mesh::Linkerd, false, &broken()));
    assert!(!may_be_left_out(Mesh::Linkerd, true, &broken()));
    assert!(!may_be_left_out(Mesh::None, false, &broken()));
    assert!(!may_be_left_out(Mesh::Linkerd, false, &Error::Interrupted));
}

#[test]
fn the_report_names_a_mesh_that_was_left_out_and_why() {
    let targets = [TargetKind::Vanilla, TargetKind::Linkerd];
    let runs = vec![run(TargetKind::Vanilla, 0, 1)];
    let mut recorded = recorded(runs);
    recorded.experiment.targets = targets.to_vec();
    recorded.experiment.versions =
        targets.map(|target| Version { target, version: "example/proxy:1".to_owned() }).to_vec();
    recorded.experiment.leave_out(TargetKind::Linkerd, left_out(broken()));
    assert_eq!(recorded.experiment.targets, [TargetKind::Vanilla]);
    assert_eq!(recorded.experiment.versions.len(), 1);
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("out");
    let mut output = Output::create(&dir).expect("a directory");
    output.describe(&recorded.experiment).expect("a description");
    output.append(&recorded.runs[0]).expect("a run");
    let Written { summary, page } = report::write(&dir).expect("a report");
    let [summary, page] = [summary, page].map(|path| std::fs::read_to_string(path).expect("text"));
    let why = "found in the cluster, but unusable: the Pod leno-lab-linkerd/load-0 has no container linkerd-proxy";
    assert!(summary.contains(&format!("skipped: {why}")), "{summary}");
    assert!(page.contains(&format!("not measured: {why}")), "{page}");
}

#[test]
fn footprint_without_a_mesh_that_works_is_refused_with_the_reason() {
    let skipped = [Skipped { target: TargetKind::Linkerd, why: left_out("no Pod is ready") }];
    let refused = |meshes: &[Mesh], skipped| ensure_measurable(Scenario::Footprint, meshes, skipped);
    assert!(refused(&[Mesh::None, Mesh::Leno], &[]).is_ok());
    assert!(ensure_measurable(Scenario::SlowPod, &[Mesh::None], &[]).is_ok());
    let error = refused(&[Mesh::None], &skipped).expect_err("an error").to_string();
    assert!(error.ends_with("linkerd: found in the cluster, but unusable: no Pod is ready"), "{error}");
    assert!(refused(&[Mesh::None], &[]).expect_err("an error").to_string().contains("--mesh names none"));
}

#[test]
fn there_are_no_more_load_pods_than_a_load_has_connections_and_calls() {
    let case = |connections, concurrency| Case {
        skew_ms: 0,
        connections,
        concurrency,
        rate_per_s: None,
        condition: Condition::default(),
    };
    assert_eq!(load_pods(&[case(1, 200)], 2), 1);
    assert_eq!(load_pods(&[case(1, 200), case(8, 200)], 4), 4);
    assert_eq!(load_pods(&[case(1, 200), case(2, 200)], 4), 2);
    assert_eq!(load_pods(&[case(8, 3)], 4), 3);
    assert_eq!(case(1, 200).load_pods(4), 1);
}
