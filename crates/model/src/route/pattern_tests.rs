use super::Pattern;

fn pattern(text: &str) -> Pattern {
    Pattern::new(text).expect("a pattern")
}

#[test]
fn a_pattern_matches_the_whole_text() {
    let canary = pattern("v2|canary");
    for (text, is_match) in [("v2", true), ("canary", true), ("v22", false), ("not-canary", false), ("", false)] {
        assert_eq!(canary.is_match(text.as_bytes()), is_match, "{text:?}");
    }
    // The longer alternative matches if the shorter alternative is not the whole text.
    assert!(pattern("a|ab").is_match(b"ab"));
    assert!(!pattern("a").is_match(b"a\n"));
}

#[test]
fn brackets_around_a_pattern_do_not_make_another_of_it() {
    assert!(Pattern::new("a)|(b").is_err());
    assert!(Pattern::new("(?x) a # to the end of the line").is_err());
}

#[test]
fn what_is_not_utf_8_does_not_match() {
    assert!(!pattern(".*").is_match(b"\xff"));
}

#[test]
fn mistakes_are_one_line() {
    for text in ["(", "[a", "a{2,1}", "*", r"\p{Greek}", "(?=a)"] {
        let error = Pattern::new(text).expect_err(text).to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{text}: {error}");
    }
}

#[test]
fn what_re2_would_refuse_is_refused_with_the_reason() {
    let error = Pattern::new("a**").expect_err("a mistake in RE2").to_string();
    assert_eq!(error, "this is not RE2's syntax: a repetition of a repetition, such as a**: write (?:a*)*");
}

#[test]
fn what_would_be_slow_is_refused() {
    assert!(Pattern::new("[a-z0-9]{1,63}").is_ok());
    let error = Pattern::new("(a{1,100}){1,100}").expect_err("too large").to_string();
    assert_eq!(error, "compiled regex exceeded size limit");
    assert!(Pattern::new(&"(".repeat(1000)).is_err());
}

#[test]
fn a_text_made_to_backtrack_takes_no_time() {
    let evil = pattern("(a*)*(a*)*b");
    // A backtracking engine would need years for this match.
    assert!(!evil.is_match("a".repeat(100).as_bytes()));
}

#[test]
fn a_pattern_whose_compiled_form_was_forgotten_matches_the_same() {
    let mut canary = pattern("v2|canary");
    let size_bytes = canary.size_bytes();
    canary.forget_compiled();
    assert_eq!((canary.as_str(), canary.size_bytes()), ("v2|canary", size_bytes));
    assert!(canary.is_match(b"v2") && !canary.is_match(b"v22") && canary.clone().is_match(b"canary"));
}
