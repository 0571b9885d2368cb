use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::fixtures::{lines, translated};

/// Policies in the namespace `shop`, each with a name and a spec.
fn policies(named: impl IntoIterator<Item = (String, String)>) -> String {
    let mut text = String::new();
    for (name, spec) in named {
        let _ = write!(
            text,
            "---\napiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec: {spec}\n"
        );
    }
    text.trim_start_matches("---\n").to_owned()
}

#[test]
fn a_notice_names_the_first_policy_that_overlaps() {
    let all = [
        ("other-port", "{ports: [2], allow: []}"),
        ("other-account", "{targetRef: {kind: ServiceAccount, name: x}, allow: []}"),
        ("of-account", "{targetRef: {kind: ServiceAccount, name: web}, ports: [1], allow: []}"),
        ("of-namespace", "{ports: [1], allow: []}"),
        ("every-port", "{allow: []}"),
    ];
    let first = |audited: &str| {
        let audited = [("audited", audited)];
        let named = all.iter().chain(&audited).map(|(name, spec)| ((*name).to_owned(), (*spec).to_owned()));
        let notices = lines(&translated(&[("a.yaml", &policies(named))]).notices);
        let [notice] = &notices[..] else { panic!("{notices:?}") };
        let name = notice.split_once("where AuthorizationPolicy shop/").and_then(|(_, rest)| rest.split_once(' '));
        name.map(|(name, _)| name.to_owned())
    };
    for (audited, name) in [
        ("{mode: Audit, targetRef: {kind: ServiceAccount, name: web}, ports: [3, 1], allow: []}", "of-account"),
        ("{mode: Audit, targetRef: {kind: ServiceAccount, name: db}, ports: [1], allow: []}", "of-namespace"),
        ("{mode: Audit, targetRef: {kind: ServiceAccount, name: db}, ports: [3], allow: []}", "every-port"),
        ("{mode: Audit, targetRef: {kind: ServiceAccount, name: x}, ports: [3], allow: []}", "other-account"),
        ("{mode: Audit, ports: [3], allow: []}", "other-account"),
        ("{mode: Audit, allow: []}", "other-port"),
    ] {
        assert_eq!(first(audited).as_deref(), Some(name), "{audited}");
    }
}

#[test]
fn four_times_as_many_policies_take_about_four_times_as_long() {
    let took = |count: usize| -> Duration {
        let spec = |mode: &str, first: u16| {
            let ports: Vec<u16> = (first..first + 500).collect();
            format!("{{mode: {mode}, ports: {ports:?}, allow: []}}")
        };
        let of = |mode: &str, first: u16| {
            policies((0..count).map(|n| (format!("{mode}-{n}").to_lowercase(), spec(mode, first))))
        };
        let (enforced, audited) = (of("Enforce", 1), of("Audit", 1_001));
        let begun = Instant::now();
        let translation = translated(&[("a.yaml", &enforced), ("b.yaml", &audited)]);
        let took = begun.elapsed();
        assert_eq!(lines(&translation.notices), [""; 0]);
        took
    };
    // The shortest of three times: a busy machine can only make a time longer.
    let shortest = |count| (0..3).map(|_| took(count)).min().unwrap_or_default();
    // When each pair of policies was compared, the second time was about 16 times the first.
    let (few, many) = (shortest(50), shortest(200));
    assert!(many < few * 8, "{few:?}, then {many:?}");
}
