use super::names;

#[test]
fn the_names_are_those_by_which_a_cluster_calls_the_service() {
    let all = names("leno", "cluster.local").expect("names");
    let all: Vec<&str> = all.iter().map(AsRef::as_ref).collect();
    assert_eq!(all, ["leno-control.leno.svc", "leno-control.leno", "leno-control.leno.svc.cluster.local"]);
    assert!(names("leno", "cluster local").is_err() && names("", "cluster.local").is_err());
}
