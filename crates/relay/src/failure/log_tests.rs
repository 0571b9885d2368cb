use std::time::{Duration, Instant};

use super::{FailureLog, MAX_LINES, WINDOW};
use crate::failure::{ConnectionFailure, FailedConnection};
use crate::metrics::{Direction, PeerLabel};

fn failed(direction: Direction, why: ConnectionFailure) -> FailedConnection {
    FailedConnection { direction, peer: PeerLabel::Source, address: ([10, 0, 0, 1], 4_000).into(), why }
}

fn denied(port: u16) -> FailedConnection {
    failed(
        Direction::Inbound,
        ConnectionFailure::Denied { client: None, server: None, port, reason: "no rule allows it".to_owned() },
    )
}

/// Returns a log that has used up the lines for one kind of failure, and has left out three further failures of this
/// kind.
fn flooded(now: Instant) -> FailureLog {
    let mut log = FailureLog::default();
    for port in 0..MAX_LINES as u16 {
        assert!(log.line(&denied(port), now).is_some());
    }
    for port in 0..3 {
        assert_eq!(log.line(&denied(port), now + WINDOW / 2), None);
    }
    log
}

#[test]
fn a_flood_of_one_kind_hides_no_other_kind_and_no_other_side() {
    let now = Instant::now();
    let mut log = flooded(now);
    assert!(log.line(&failed(Direction::Inbound, ConnectionFailure::HandshakeCut), now).is_some());
    assert!(
        log.line(
            &failed(
                Direction::Outbound,
                ConnectionFailure::Denied { client: None, server: None, port: 1, reason: String::new() }
            ),
            now
        )
        .is_some()
    );
}

#[test]
fn the_next_line_of_the_kind_says_how_many_were_left_out() {
    let now = Instant::now();
    let mut log = flooded(now);
    let line = log.line(&denied(9), now + WINDOW).expect("a new second has begun");
    assert_eq!(line, format!("{} (3 more like it were not logged)", denied(9)));
    assert_eq!(log.line(&denied(9), now + WINDOW), Some(denied(9).to_string()));
}

#[test]
fn when_no_further_line_comes_what_was_left_out_is_said_once() {
    let now = Instant::now();
    let mut log = flooded(now);
    assert_eq!(log.left_out(now + WINDOW - Duration::from_millis(1)), Vec::<String>::new());
    let said = ["3 more inbound connections failed and were not logged: denied"];
    assert_eq!(log.left_out(now + WINDOW), said);
    assert_eq!(log.left_out(now + WINDOW), Vec::<String>::new());
}
