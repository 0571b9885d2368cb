use super::*;
use crate::publication::example::slow_pod;

#[test]
fn the_terminal_shows_the_sentence_the_tables_and_why_a_condition_is_missing() {
    let measured = slow_pod();
    let mut text = Vec::new();
    write(&Document::of(&measured), &mut text).expect("a Vec takes all text");
    let text = String::from_utf8(text).expect("text");
    assert!(text.trim_start().starts_with("With one of five pods 50 ms slower"), "{text}");
    let istio = text.lines().find(|line| line.trim_start().starts_with("Istio sidecar")).unwrap_or_default();
    let figures: Vec<&str> = istio.split_whitespace().collect();
    assert_eq!(figures[..5], ["Istio", "sidecar", "20.2", "49.6", "0.407"], "{text}");
    assert_eq!(text.matches("Linkerd was not measured: ").count(), 1, "{text}");
    assert!(text.contains("Where Leno is worse"), "{text}");
}
