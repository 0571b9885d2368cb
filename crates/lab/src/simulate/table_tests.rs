use super::*;
use crate::simulate::Kind;
use crate::simulate::scenarios::Scenario;

fn rows() -> Vec<Row> {
    let row = |case: &str, kind| Row::new(Scenario::Equal, "five endpoints".to_owned(), case.to_owned(), kind);
    vec![
        row("one", Kind::OURS).figure("p99 ms", 16.04).figure("again s", None).goal("p99", true),
        row("one", Kind::PeakEwma).figure("p99 ms", 1234.0).figure("again s", 0.0123).goal("p99", false),
        row("two", Kind::OURS).figure("p99 ms", 5.0).figure("again s", 2.0).goal("p99", false).goal("share", false),
    ]
}

#[test]
fn columns_stand_below_one_another_and_a_case_is_named_once() {
    let mut out = Vec::new();
    write(&rows(), &mut out).expect("a vector takes all");
    let text = String::from_utf8(out).expect("text");
    let expected = "
five endpoints
       balancer       p99 ms  again s  goals
  one  latency          16.0        -  reached
       p2c-peak-ewma    1234    0.012  MISSED p99
  two  latency          5.00     2.00  MISSED p99, share
";
    assert_eq!(text, expected);
}

#[test]
fn the_score_counts_goals_not_rows() {
    let mut out = Vec::new();
    write_score(&rows(), &mut out).expect("a vector takes all");
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("latency               1 of 3"), "{text}");
    assert!(text.contains("p2c-peak-ewma         0 of 1"), "{text}");
}

#[test]
fn a_document_gets_a_table_for_each_setting() {
    let expected = "
## five endpoints

|  | balancer | p99 ms | again s | goals |
|---|---|---:|---:|---|
| one | latency | 16.0 | - | reached |
|  | p2c-peak-ewma | 1234 | 0.012 | MISSED p99 |
| two | latency | 5.00 | 2.00 | MISSED p99, share |
";
    assert_eq!(markdown(&rows()), expected);
}
