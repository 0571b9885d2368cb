use super::*;
use crate::experiment::record::Version;
use crate::publication::example::{measured, slow_pod};
use crate::publication::figures::Measured;
use crate::publication::name::Name;
use crate::report::page::tests::elements;

fn page(measured: &Measured) -> String {
    html(&Document::of(measured))
}

#[test]
fn pages_of_all_publications_are_well_formed_even_without_a_run() {
    for name in Name::ALL {
        let html = page(&measured(name, Vec::new()));
        let found = elements(&html);
        let tables = found.iter().filter(|element| *element == "table").count();
        assert_eq!(tables, name.publication().tables.len(), "{name}");
        assert!(html.contains("Leno was not measured"), "{name}");
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let html = page(&slow_pod());
    for outside in ["src=", "href=", "url(", "@import", "<script", "<link"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(elements(&html).iter().filter(|element| *element == "h1").count(), 1);
}

#[test]
fn a_condition_that_was_not_measured_says_why_in_the_first_table() {
    let html = page(&slow_pod());
    assert_eq!(
        html.matches("<span>not measured here: --targets linkerd cannot run: name a &lt;linkerd2-proxy&gt; binary")
            .count(),
        1
    );
    assert_eq!(html.matches("not measured here: see the first table").count() % 5, 0);
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "</style><script>alert(\"1\")</script>&'";
    let mut measured = slow_pod();
    measured.description.command = hostile.to_owned();
    measured.description.started = hostile.to_owned();
    measured.description.machine.cpu_model = hostile.to_owned();
    measured.description.versions =
        vec![Version { target: crate::experiment::record::TargetKind::Istio, version: hostile.to_owned() }];
    let html = page(&measured);
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
    elements(&html);
}
