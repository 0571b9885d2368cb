use super::*;

#[test]
fn lines_are_joined_and_what_a_terminal_would_obey_is_shown_as_a_question_mark() {
    assert_eq!(line(" Back-off\n  pulling\timage "), "Back-off pulling image");
    assert_eq!(line("a\x1b[2Jb\u{9b}c\x07"), "a?[2Jb?c?");
}
