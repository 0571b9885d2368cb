use super::*;

#[test]
fn what_depends_on_a_check_that_failed_is_not_run_and_says_so() {
    let mut list = Checklist::default();
    list.section("cluster");
    list.check("API server", &[], || Finding::failed("it is away", "start it"));
    list.check("version", &["API server"], || -> Finding { panic!("nobody may ask") });
    list.check("policies", &["version"], || -> Finding { panic!("nor this") });
    let seen: Vec<_> = list.checks().iter().map(|check| (check.verdict, check.why.as_str())).collect();
    let not_run = Verdict::NotRun;
    assert_eq!(seen, [(Verdict::Failed, "it is away"), (not_run, "first: API server"), (not_run, "first: version")]);
    assert_eq!(list.failure().map(|check| check.name), Some("API server"));
}

#[test]
fn a_warning_stops_nothing() {
    let mut list = Checklist::default();
    list.check("a", &[], || Finding::warning("hm", "look"));
    list.check("b", &["a"], || Finding::ok("fine"));
    assert_eq!(list.checks()[1].verdict, Verdict::Ok);
    assert!(list.failure().is_none());
}

#[test]
fn the_text_names_sections_once_and_puts_the_fix_below() {
    let mut list = Checklist::default();
    list.section("cluster");
    list.check("API server", &[], || Finding::ok("v1.34.4"));
    list.section("Leno");
    list.check("Pods", &[], || Finding::failed("none is ready", "kubectl get pods -n leno"));
    list.check("answers", &["Pods"], || Finding::ok(""));
    assert_eq!(
        list.text(false),
        "cluster\n  ok       API server  v1.34.4\n\n\
         Leno\n  failed   Pods        none is ready\n                       -> kubectl get pods -n leno\n  \
         not run  answers     first: Pods\n\n1 ok, 1 failed, 1 not run\n"
    );
    assert!(list.text(true).contains("\x1b[31mfailed \x1b[0m"));
}

#[test]
fn of_many_findings_the_first_are_shown_and_the_rest_counted() {
    let mut list = Checklist::default();
    list.check("Pods", &[], || vec![Finding::failed("one", "mend it"); 25]);
    assert_eq!(list.checks().len(), 20);
    assert_eq!(list.checks()[19].why, "one (and 5 more)");
    assert!(!list.checks()[18].why.contains("more"));
}

#[test]
fn a_failure_is_shown_and_fails_however_many_findings_come_before_it() {
    let mut list = Checklist::default();
    list.check("Pods", &[], || {
        let warnings = (0..30).map(|number| Finding::warning(number.to_string(), "look"));
        warnings.chain([Finding::failed("the last", "mend it")]).collect::<Vec<_>>()
    });
    assert_eq!(list.failure().map(|check| check.why.as_str()), Some("the last"));
    let shown: Vec<&str> = list.checks().iter().map(|check| check.why.as_str()).collect();
    assert_eq!((shown.len(), &shown[..3], shown[19]), (20, &["the last", "0", "1"][..], "18 (and 11 more)"));
}

#[test]
fn programs_read_sections_verdicts_reasons_and_fixes() {
    let mut list = Checklist::default();
    list.section("cluster");
    list.check("a", &[], || Finding::failed("why", "fix"));
    list.check("b", &["a"], || Finding::ok(""));
    assert_eq!(
        serde_json::to_value(&list).expect("JSON"),
        serde_json::json!({"checks": [
            {"section": "cluster", "name": "a", "verdict": "failed", "why": "why", "fix": "fix"},
            {"section": "cluster", "name": "b", "verdict": "not run", "why": "first: a"},
        ]})
    );
}
