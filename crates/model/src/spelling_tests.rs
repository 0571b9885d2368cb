use super::closest;

const FIELDS: [&str; 4] = ["ports", "selector", "clusterIP", "type"];

#[test]
fn a_swapped_missing_extra_or_wrong_letter_finds_the_word() {
    for typo in ["prots", "port", "portss", "pirts"] {
        assert_eq!(closest(typo, FIELDS), Some("ports"), "{typo}");
    }
    assert_eq!(closest("clusterip", FIELDS), Some("clusterIP"));
}

#[test]
fn a_word_far_from_all_finds_none() {
    for word in ["", "x", "replicas", "tipo", &"p".repeat(1000)] {
        assert_eq!(closest(word, FIELDS), None, "{word}");
    }
}
