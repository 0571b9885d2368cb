use super::*;

#[test]
fn leno_is_measured_even_if_only_others_are_named() {
    let options = Options { targets: Some(vec![TargetKind::Istio]), ..Options::plain(Name::Ladder2026, Scale::Quick) };
    assert_eq!(options.conditions().expect("a condition"), [TargetKind::Istio, TargetKind::LenoMesh]);
}

#[test]
fn a_target_that_is_no_condition_is_an_error_of_one_line_with_the_conditions() {
    let options = Options { targets: Some(vec![TargetKind::Nginx]), ..Options::plain(Name::Ladder2026, Scale::Quick) };
    let error = options.conditions().expect_err("nginx is in no publication").to_string();
    assert_eq!(error, "--targets nginx is no condition of ladder-2026; choose among direct, linkerd, istio, leno-mesh");
}

#[test]
fn the_directory_has_the_publications_name() {
    assert_eq!(Options::plain(Name::Kinvolk2019, Scale::Full).out(), PathBuf::from("lab-kinvolk-2019"));
}
