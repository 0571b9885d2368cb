use super::*;

#[test]
fn markup_and_control_characters_become_harmless() {
    assert_eq!(escape("<a href=\"x\">'&\u{0}\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;  ");
}

#[test]
fn lines_break_between_words_and_never_within_one() {
    let lines = wrap("p99 of every target against the skew", 10.0, 100.0);
    assert!(lines.len() > 1);
    assert!(lines.iter().all(|line| width(line, 10.0) <= 100.0), "{lines:?}");
    assert_eq!(lines.join(" "), "p99 of every target against the skew");
    assert_eq!(wrap("incomprehensibilities", 10.0, 20.0), ["incomprehensibilities"]);
}

#[test]
fn a_name_that_is_too_long_ends_in_an_ellipsis() {
    assert_eq!(fitted("leno", 12.0, 60.0), "leno");
    let cut = fitted("a balancer with a very long name", 12.0, 100.0);
    assert!(cut.starts_with("a bal") && cut.ends_with('\u{2026}') && width(&cut, 12.0) <= 100.0, "{cut}");
}
