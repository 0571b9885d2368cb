use super::super::example::{recorded, run, slow_pod};
use super::*;
use crate::experiment::record::{Restarts, Rollout, Run, Skipped, TargetKind, Version};

/// Returns the elements of well-formed markup, in order. Panics if the markup is malformed.
pub(crate) fn elements(html: &str) -> Vec<String> {
    let (mut open, mut found): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let body = html.strip_prefix("<!doctype html>\n").expect("a doctype");
    for entity in body.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|known| entity.starts_with(known));
        assert!(known, "&{}", entity.lines().next().unwrap_or_default());
    }
    for part in body.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap_or_else(|| panic!("<{part} has no end"));
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "</{name}> after {found:?}");
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap_or_default().to_owned();
        found.push(name.clone());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
    found
}

#[test]
fn the_page_is_well_formed_and_has_every_part() {
    let recorded = slow_pod(7, true);
    let html = html(&Results::new(&recorded));
    let elements = elements(&html);
    let count = |name: &str| elements.iter().filter(|element| *element == name).count();
    // Nine charts: three latency curves, three line charts over the skew, two bar charts of the slow backend's share,
    // and one of the memory.
    assert_eq!((count("svg"), count("figure"), count("script"), count("h1")), (9, 9, 0, 1));
    assert!(html.contains("apt install haproxy") && html.contains("leno lab run slow-pod"));
}

#[test]
fn pages_of_all_scenarios_are_well_formed() {
    for scenario in Scenario::ALL {
        let of = |(repeat, target)| Run {
            scenario,
            proxy_rss_before_bytes: Some(4_000_000),
            recovered_after_s: (repeat % 2 == 0).then_some(3.0),
            connections: 1_u32 << (repeat % 3),
            ..run(target, 200, repeat)
        };
        let targets = [TargetKind::Leno, TargetKind::Direct];
        let recorded = recorded((1..20).zip(targets.into_iter().cycle()).map(of).collect());
        assert!(elements(&html(&Results::new(&recorded))).len() > 50, "{scenario:?}");
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let recorded = slow_pod(7, false);
    let html = html(&Results::new(&recorded));
    for outside in ["http:", "https:", "//", "src=", "href=", "url(", "@import", "<script", "<link"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "</style><script>alert(\"1\")</script>&'";
    let mut recorded = slow_pod(7, true);
    let experiment = &mut recorded.experiment;
    experiment.command = hostile.to_owned();
    experiment.started = hostile.to_owned();
    experiment.machine.cpu_model = hostile.to_owned();
    experiment.machine.kernel = hostile.to_owned();
    experiment.versions = vec![Version { target: TargetKind::Leno, version: hostile.to_owned() }];
    experiment.skipped = vec![Skipped { target: TargetKind::Haproxy, why: hostile.to_owned() }];
    recorded.notes = vec![hostile.to_owned()];
    recorded.runs[0] = Run { errors: 1, first_error: Some(hostile.to_owned()), ..recorded.runs[0].clone() };
    let html = html(&Results::new(&recorded));
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;alert(&quot;1&quot;)"));
    elements(&html);
}

#[test]
fn a_bar_counts_the_repeats_that_never_became_steady() {
    let of = |(steady_after_s, repeat): (Option<f64>, u32)| Run {
        scenario: Scenario::Steady,
        steady_after_s,
        ..run(TargetKind::Leno, 0, repeat)
    };
    let page = |times: [Option<f64>; 3]| {
        let recorded = recorded(times.into_iter().zip(1..).map(of).collect());
        html(&Results::new(&recorded))
    };
    assert!(page([Some(3.0), None, Some(7.0)]).contains(">7.00 s<"));
    assert!(page([Some(3.0), None, None]).contains(">not within the run<"));
}

#[test]
fn a_bar_counts_the_repeats_in_which_every_call_failed() {
    let of = |repeat| {
        let lost = if repeat == 1 { 0 } else { 1000 };
        let restarts = Restarts { restarts: 5, calls: 1000 - lost, lost };
        let rollout = Some(Rollout { graceful: restarts, abrupt: restarts });
        Run { scenario: Scenario::Rollout, rollout, calls: 1000 - lost, ..run(TargetKind::Leno, 0, repeat) }
    };
    let recorded = recorded((1..=3).map(of).collect());
    assert!(html(&Results::new(&recorded)).contains(">1,000<"));
}
