use super::*;

#[test]
fn every_annotation_is_documented_as_it_is() {
    let page = include_str!("../../../docs/kubernetes.md");
    for (name, values, what) in ALL {
        let row = format!("| `{name}` | {values} | {what} |\n");
        assert!(page.contains(&row), "docs/kubernetes.md needs the line {row}");
    }
    let rows = page.lines().filter(|line| line.starts_with(&format!("| `{PREFIX}"))).count();
    assert_eq!(rows, ALL.len(), "docs/kubernetes.md has annotations that do not exist");
}

#[test]
fn only_annotations_of_ours_are_looked_at() {
    let all = serde_json::json!({"leno.dev/inject": "enabled", "other.org/leno.dev/x": "y", "leno.dev/n": 7});
    assert_eq!(ours(all.as_object()).collect::<Vec<_>>(), [("leno.dev/inject", "enabled"), ("leno.dev/n", "")]);
    assert_eq!(ours(None).count(), 0);
}

#[test]
fn an_unknown_name_is_told_with_the_one_that_was_meant() {
    assert_eq!(unknown(INJECT), None);
    assert!(unknown("leno.dev/injct").is_some_and(|text| text.ends_with("did you mean leno.dev/inject?")));
    assert!(unknown("leno.dev/colour-of-the-proxy").is_some_and(|text| text.ends_with("it has no effect")));
}
