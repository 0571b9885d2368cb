use super::super::mesh::tests::readings;
use super::*;
use crate::cluster::source::tests::proxy_of;

#[test]
fn a_problem_of_several_proxies_is_kept_once_and_an_unreadable_page_is_named() {
    let problem =
        r#"{"problems": [{"file": "a.yaml", "line": 4, "what": "80000 is no port", "fix": "write 1 to 65535"}]}"#;
    let [web, cart, batch, other] = ["web", "cart", "batch", "other"].map(|name| proxy_of(name, "pod"));
    let found = Configurations::of(vec![
        (web, Ok(problem.to_owned())),
        (cart, Ok(problem.to_owned())),
        (batch.clone(), Ok("<html>".to_owned())),
        (other.clone(), Err("it did not\nanswer".to_owned())),
    ]);
    let what = "a.yaml:4: 80000 is no port; write 1 to 65535".to_owned();
    assert_eq!(found.problems, [Reported { what, until_corrected: None, by: "web".to_owned() }]);
    let [(first, why), last] = found.unread.as_slice() else { panic!("{:?}", found.unread) };
    assert_eq!((first, last), (&batch, &(other, "it did not answer".to_owned())));
    assert!(why.starts_with("its /config cannot be read: "), "{why}");
}

#[test]
fn a_problem_has_what_each_proxy_has_in_force_of_its_file() {
    let page = |until_corrected: &str| {
        let page = serde_json::json!({
            "problems": [{"file": "b.yaml", "line": 4, "what": "80000 is no port", "fix": "write 1 to 65535"}],
            "files": [
                {"path": "a.yaml", "serving": "current"},
                {"path": "b.yaml", "serving": "?", "until_corrected": until_corrected},
            ],
        });
        Ok(page.to_string())
    };
    let (last, nothing) = ("its last valid version stays in force", "no part of it is in force");
    let [web, cart, batch] = ["web", "cart", "batch"].map(|name| proxy_of(name, "pod"));
    let found = Configurations::of(vec![(web, page(last)), (cart, page(last)), (batch, page(nothing))]);
    let in_force: Vec<_> =
        found.problems.iter().map(|problem| (problem.until_corrected.as_deref(), problem.by.as_str())).collect();
    assert_eq!(in_force, [(Some(last), "web"), (Some(nothing), "batch")]);
}

#[test]
fn a_proxy_that_has_reported_problems_only_since_the_last_reading_is_missing() {
    let readings = readings(&[("web", "leno_config_problems 2\n"), ("cart", "leno_config_problems 0\n")]);
    assert_eq!(Configurations::default().missing(&readings), [proxy_of("web", "pod")]);
    let asked = Configurations { asked: [proxy_of("web", "pod")].into(), ..Configurations::default() };
    assert!(asked.missing(&readings).is_empty());
}
