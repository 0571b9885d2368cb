use super::super::report::Verdict;
use super::*;

fn version(major: &str, minor: &str) -> Verdict {
    let info = Info {
        major: major.to_owned(),
        minor: minor.to_owned(),
        git_version: format!("v{major}.{minor}.0"),
        ..Info::default()
    };
    let mut list = Checklist::default();
    conclude(&mut list, &Ok(info));
    list.checks()[1].verdict
}

#[test]
fn clusters_without_native_sidecars_are_too_old() {
    assert_eq!(version("1", "28"), Verdict::Failed);
    assert_eq!(version("1", "29"), Verdict::Ok);
    assert_eq!(version("1", "29+"), Verdict::Ok);
    assert_eq!(version("2", "0"), Verdict::Ok);
    assert_eq!(version("one", ""), Verdict::Warning);
}

#[test]
fn without_an_api_server_nothing_else_is_asked() {
    let mut list = Checklist::default();
    conclude(&mut list, &Err(ClusterError::new("it is away", "start it")));
    gateway(&mut list, &Ok(Vec::new()));
    let verdicts: Vec<_> = list.checks().iter().map(|check| check.verdict).collect();
    assert_eq!(verdicts, [Verdict::Failed, Verdict::NotRun, Verdict::NotRun]);
}

#[test]
fn missing_route_kinds_are_a_warning_that_names_them() {
    let mut list = Checklist::default();
    gateway(&mut list, &Ok(GATEWAY_DEFINITIONS.to_vec()));
    let check = &list.checks()[0];
    assert_eq!(check.verdict, Verdict::Warning);
    assert!(check.why.contains("no httproutes.gateway.networking.k8s.io and no grpcroutes"), "{}", check.why);
}
