use serde_json::json;

use super::super::report::{Check, Verdict};
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
fn clusters_without_native_sidecars_or_admission_policies_are_too_old() {
    assert_eq!(version("1", "29"), Verdict::Failed);
    assert_eq!(version("1", "30"), Verdict::Ok);
    assert_eq!(version("1", "30+"), Verdict::Ok);
    assert_eq!(version("2", "0"), Verdict::Ok);
    assert_eq!(version("one", ""), Verdict::Warning);
}

#[test]
fn without_an_api_server_nothing_else_is_asked() {
    let mut list = Checklist::default();
    conclude(&mut list, &Err(ClusterError::new("it is away", "start it")));
    gateway(&mut list, &Ok(Routes::default()));
    let verdicts: Vec<_> = list.checks().iter().map(|check| check.verdict).collect();
    assert_eq!(verdicts, [Verdict::Failed, Verdict::NotRun, Verdict::NotRun]);
}

#[test]
fn missing_route_kinds_are_a_warning_that_names_them() {
    let [check] = found(&|_| None).try_into().expect("one check");
    assert_eq!(check.verdict, Verdict::Warning);
    assert!(check.why.contains("no httproutes.gateway.networking.k8s.io and no grpcroutes"), "{}", check.why);
    assert!(!check.why.contains("tlsroutes"), "{}", check.why);
}

/// Runs the checks on CustomResourceDefinitions that have these versions; `+` marks a version that the API server
/// serves.
fn found(versions: &dyn Fn(&str) -> Option<&'static str>) -> Vec<Check> {
    let mut routes = Routes::default();
    for name in Routes::definitions() {
        let version =
            |text: &str| json!({"name": text.trim_end_matches('+'), "served": text.ends_with('+'), "storage": true});
        let definition = versions(name).map(|versions| {
            let versions: Vec<_> = versions.split(' ').map(version).collect();
            let names = json!({"kind": "A", "plural": "as"});
            let spec = json!({"group": "a", "scope": "Namespaced", "names": names, "versions": versions});
            serde_json::from_value(json!({"metadata": {}, "spec": spec})).expect("a definition")
        });
        routes.note(name, definition.as_ref());
    }
    let mut list = Checklist::default();
    gateway(&mut list, &Ok(routes));
    list.checks().to_vec()
}

#[test]
fn routes_in_versions_that_are_not_read_are_a_warning_each() {
    let said = |versions| found(&|name| if name.starts_with("t") { versions } else { Some("v1beta1+ v1+") });
    assert_eq!(said(Some("v1alpha2+ v1+"))[0].verdict, Verdict::Ok);
    assert_eq!(said(None)[0].verdict, Verdict::Ok, "not everybody needs them");
    for versions in ["v1alpha2+ v1alpha3+", "v1alpha2+ v1"] {
        let whys: Vec<_> = said(Some(versions)).into_iter().map(|check| (check.verdict, check.why)).collect();
        let why = |name| {
            let what = "has no version v1: the mesh ignores routes of this kind";
            (Verdict::Warning, format!("{name}.gateway.networking.k8s.io {what}"))
        };
        assert_eq!(whys, [why("tlsroutes"), why("tcproutes")]);
    }
}
