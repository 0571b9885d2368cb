use super::*;
use crate::load::Latency;

fn text_with(held_up: Duration, colours: bool) -> String {
    let options = Options { seconds_per_phase: 7, slow_ms: 50, rate: 2000, concurrency: 1000, plain: true };
    let row = |label: &str| Row {
        label: label.to_owned(),
        calls_per_second: 2000.0,
        latency: Latency::default(),
        slow_share: 0.0,
        failed: 0,
    };
    text(&[row("round robin"), row("Leno")], &options, held_up, colours)
}

#[test]
fn without_colours_there_is_no_escape_sequence() {
    assert!(!text_with(Duration::ZERO, false).contains('\x1b'));
    assert!(text_with(Duration::ZERO, true).contains("\x1b[1mLeno "));
}

#[test]
fn numbers_of_a_held_up_load_come_with_a_warning() {
    let warning = "the load itself was held up for 1500 ms";
    assert!(text_with(Duration::from_millis(1500), false).contains(warning));
    assert!(!text_with(Duration::ZERO, false).contains("held up"));
}
