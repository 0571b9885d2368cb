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
    assert_eq!(found.problems, [("web".to_owned(), "a.yaml:4: 80000 is no port; write 1 to 65535".to_owned())]);
    let [(first, why), last] = found.unread.as_slice() else { panic!("{:?}", found.unread) };
    assert_eq!((first, last), (&batch, &(other, "it did not answer".to_owned())));
    assert!(why.starts_with("its /config cannot be read: "), "{why}");
}

#[test]
fn a_proxy_that_has_reported_problems_only_since_the_last_reading_is_missing() {
    let readings = readings(&[("web", "leno_config_problems 2\n"), ("cart", "leno_config_problems 0\n")]);
    assert_eq!(Configurations::default().missing(&readings), [proxy_of("web", "pod")]);
    let asked = Configurations { asked: [proxy_of("web", "pod")].into(), ..Configurations::default() };
    assert!(asked.missing(&readings).is_empty());
}
