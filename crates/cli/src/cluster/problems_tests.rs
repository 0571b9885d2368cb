use super::*;

fn problem(severity: Severity, what: &str) -> Problem {
    Problem { severity, kind: "failing calls", what: what.to_owned(), fix: "look there".to_owned(), service: None }
}

#[test]
fn problems_are_listed_with_their_fix_and_counted() {
    let problems = vec![
        problem(Severity::Error, "shop/cart fails 50.0 % of its calls"),
        problem(Severity::Warning, "a"),
        problem(Severity::Warning, "b\u{1b}[2J"),
    ];
    let text = text(&Found { proxies: 12, unread: 2, problems }, Duration::from_secs(10), false);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["error    shop/cart fails 50.0 % of its calls", "         -> look there"]);
    assert_eq!(
        lines.last(),
        Some(&"1 error, 2 warnings; 12 proxies watched for 10s; 2 more did not answer in time, and may have problems")
    );
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn without_a_problem_the_answer_says_what_was_watched() {
    let found = Found { proxies: 1, unread: 0, problems: Vec::new() };
    assert_eq!(text(&found, Duration::from_secs(10), true), "no problem found; 1 proxy watched for 10s\n");
}

#[test]
fn the_window_is_long_enough_for_counts_to_grow() {
    assert!(parse_window("5s").is_ok() && parse_window("5m").is_ok());
    assert!(parse_window("4s").is_err() && parse_window("6m").is_err());
}
