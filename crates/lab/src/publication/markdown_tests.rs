use super::*;
use crate::publication::example::{measured, slow_pod};
use crate::publication::name::Name;

#[test]
fn the_file_opens_with_the_sentence_and_the_table() {
    let measured = slow_pod();
    let text = text(&Document::of(&measured));
    let mut lines = text.lines().filter(|line| !line.is_empty());
    assert_eq!(lines.next(), Some("# slow-pod-2026"));
    assert!(lines.next().is_some_and(|line| line.starts_with("With one of five pods 50 ms slower")), "{text}");
    assert_eq!(lines.next(), Some("## p99, ms"));
    assert!(lines.next().is_some_and(|line| line.starts_with("| condition | all pods alike: here | theirs | ratio |")));
}

#[test]
fn rows_have_as_many_cells_as_their_head_and_reasons_stand_once() {
    let measured = slow_pod();
    let text = text(&Document::of(&measured));
    let mut columns = 0;
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let count = line.matches('|').count();
        if line.starts_with("| condition") {
            columns = count;
        }
        assert_eq!(count, columns, "{line}");
    }
    assert_eq!(text.matches("name a &lt;linkerd2-proxy> binary").count(), 1, "{text}");
}

#[test]
fn what_is_worse_has_a_list_like_what_is_better() {
    let measured = slow_pod();
    let text = text(&Document::of(&measured));
    for title in
        ["## Where Leno is better than", "## Where Leno is worse than", "## What is left out", "## What \"here\" is"]
    {
        assert!(text.contains(title), "{title}: {text}");
    }
    assert!(text.contains("\n    leno lab publish slow-pod-2026\n"), "{text}");
}

#[test]
fn without_a_better_or_worse_figure_the_lists_say_so() {
    let measured = measured(Name::Kinvolk2019, Vec::new());
    let text = text(&Document::of(&measured));
    assert_eq!(text.matches("\n- No figure.\n").count(), 2, "{text}");
}
