use super::*;

#[test]
fn a_program_that_was_killed_ends_as_a_shell_would_say() {
    assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
    assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
    assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    assert_eq!(exit_code_of(Signal::INT), 130);
}

#[test]
fn a_program_that_survives_a_signal_is_published_again_some_seconds_later() {
    let start = Instant::now();
    let mut readiness = Readiness::new(vec![8080], start);
    assert!(readiness.is_due(start));
    // Do what `look` does once the program listens and has been published.
    readiness.waits = false;
    let signal = start + Duration::from_secs(60);
    readiness.note_ending(signal);
    assert!(!readiness.is_due(signal + ENDING_TIME / 2), "it has time to end");
    assert!(readiness.is_due(signal + ENDING_TIME) && readiness.ports == [8080]);
    // The supervisor does not complain that the program no longer listens: a program that ends closes its ports.
    assert!(readiness.has_complained);
}

#[test]
fn a_program_without_ports_is_never_published() {
    let start = Instant::now();
    let mut readiness = Readiness::new(Vec::new(), start);
    readiness.note_ending(start);
    assert!(!readiness.is_due(start + ENDING_TIME));
}

#[test]
fn a_program_that_takes_long_to_listen_is_looked_at_ever_more_rarely() {
    assert_eq!(look_interval(Duration::ZERO), Duration::ZERO);
    assert_eq!(look_interval(Duration::from_secs(10)), Duration::from_secs(1));
    assert_eq!(look_interval(Duration::from_secs(3_600)), LOOK_INTERVAL_MAX);
    // A check took 12 ms on a machine with a large table of connections. With fewer than 60 checks in the first minute,
    // the checks take about 1 % of a core.
    let (mut waited, mut looks) = (Duration::ZERO, 0);
    while waited < Duration::from_secs(60) {
        waited += look_interval(waited).max(REFRESH_INTERVAL);
        looks += 1;
    }
    assert!(looks < 60, "{looks} looks in a minute");
}

#[test]
fn a_program_that_does_not_listen_is_named_with_the_ports_that_it_lacks() {
    let text = complaint("./server", &[8080]);
    assert!(text.starts_with("after 5 s ./server does not listen on port 8080 yet; "), "{text}");
    assert!(complaint("./server", &[80, 81]).contains(" on ports 80, 81 yet"));
}
