use super::*;

/// Returns the state of a connection that has a call, in a cluster with other endpoints. The server has sent its last
/// byte at `last_read`, and its latest header section without END_STREAM on the stream `highest_with_content`.
fn seen(last_read: Instant, highest_with_content: u32) -> Seen {
    Seen { last_read, is_idle: false, is_avoidable: true, highest_with_content }
}

fn check(liveness: &mut Liveness, now: Instant, seen: Seen) -> Check {
    liveness.check(now, seen, &RelayLimits::default())
}

#[test]
fn a_server_that_is_silent_after_a_call_gets_one_ping_and_is_doubtful_until_a_byte_arrives() {
    let (start, moment) = (Instant::now(), Duration::from_millis(1));
    let mut liveness = Liveness::default();
    liveness.call_sent(start, start);
    // A later call does not delay the PING.
    liveness.call_sent(start + SILENT_AFTER / 2, start);
    assert_eq!(check(&mut liveness, start + SILENT_AFTER - moment, seen(start, 0)), Check::Keep);
    assert!(!liveness.is_doubtful(start));
    let asked = start + SILENT_AFTER;
    assert_eq!(check(&mut liveness, asked, Seen { is_idle: true, ..seen(start, 0) }), Check::Ping);
    for seconds in 1..60 {
        assert_eq!(check(&mut liveness, asked + Duration::from_secs(seconds), seen(start, 0)), Check::Keep);
    }
    assert!(liveness.is_doubtful(start));
    let heard = asked + Duration::from_secs(60);
    assert!(!liveness.is_doubtful(heard));
    assert_eq!(check(&mut liveness, heard + 2 * SILENT_AFTER, seen(heard, 0)), Check::Keep, "no call was sent since");
}

#[test]
fn a_server_that_sends_bytes_gets_no_ping() {
    let start = Instant::now();
    let (mut liveness, mut last_read) = (Liveness::default(), start);
    for turn in 0..100_u32 {
        let sent = start + SILENT_AFTER * turn;
        liveness.call_sent(sent, last_read);
        last_read = sent + SILENT_AFTER / 2;
        assert_eq!(check(&mut liveness, sent + SILENT_AFTER, seen(last_read, 0)), Check::Keep);
    }
}

#[test]
fn a_server_whose_calls_could_go_nowhere_else_gets_no_ping() {
    let start = Instant::now();
    let mut liveness = Liveness::default();
    liveness.call_sent(start, start);
    let seen = Seen { is_avoidable: false, ..seen(start, 0) };
    assert_eq!(check(&mut liveness, start + 2 * SILENT_AFTER, seen), Check::Keep);
}

/// Sends calls to a server that answers each PING. It sends header sections without END_STREAM up to the stream
/// `highest_with_content`. Returns the number of PINGs.
fn pings_of(liveness: &mut Liveness, start: Instant, highest_with_content: u32) -> usize {
    let mut last_read = start;
    let asks = |turn: u32| {
        let now = start + 2 * SILENT_AFTER * turn;
        liveness.call_sent(now, last_read);
        let is_asked = check(liveness, now + SILENT_AFTER, seen(last_read, highest_with_content)) == Check::Ping;
        if is_asked {
            last_read = now + SILENT_AFTER + Duration::from_millis(1);
        }
        is_asked
    };
    (0..10).map(asks).filter(|is_asked| *is_asked).count()
}

#[test]
fn a_server_that_answers_pings_but_no_calls_gets_fewer_pings_than_grpc_servers_forbid() {
    let (start, later) = (Instant::now(), Duration::from_secs(100));
    let mut liveness = Liveness::default();
    assert_eq!(pings_of(&mut liveness, start, 0), usize::from(PINGS_MAX));
    assert_eq!(pings_of(&mut liveness, start + later, 0), 0);
    assert_eq!(pings_of(&mut liveness, start + 2 * later, 21), usize::from(PINGS_MAX), "it has answered a call");
}

#[test]
fn a_ping_after_a_short_silence_does_not_end_the_connection_sooner() {
    let (start, relay) = (Instant::now(), RelayLimits::default());
    let limit = ms(relay.endpoint_ping_after_ms) + ms(relay.endpoint_ping_timeout_ms);
    let mut liveness = Liveness::default();
    liveness.call_sent(start, start);
    assert_eq!(check(&mut liveness, start + SILENT_AFTER, seen(start, 0)), Check::Ping);
    assert_eq!(check(&mut liveness, start + limit - Duration::from_millis(1), seen(start, 0)), Check::Keep);
    assert_eq!(check(&mut liveness, start + limit, Seen { is_idle: true, ..seen(start, 0) }), Check::Keep);
    assert_eq!(check(&mut liveness, start + limit, seen(start, 0)), Check::Gone);
}

#[test]
fn a_long_silence_ends_in_a_ping_and_an_unanswered_ping_in_the_end_of_the_connection() {
    let (start, relay, moment) = (Instant::now(), RelayLimits::default(), Duration::from_millis(1));
    let (after, timeout) = (ms(relay.endpoint_ping_after_ms), ms(relay.endpoint_ping_timeout_ms));
    let mut liveness = Liveness::default();
    liveness.call_sent(start, start);
    // The server has answered the call, and its stream is open.
    let answered = start + moment;
    assert_eq!(check(&mut liveness, answered + after - moment, seen(answered, 1)), Check::Keep);
    let asked = answered + after + moment;
    assert_eq!(check(&mut liveness, asked, Seen { is_idle: true, ..seen(answered, 1) }), Check::Keep);
    assert_eq!(check(&mut liveness, asked, seen(answered, 1)), Check::Ping);
    assert_eq!(check(&mut liveness, asked + timeout - moment, seen(answered, 1)), Check::Keep);
    assert_eq!(check(&mut liveness, asked + timeout, seen(answered, 1)), Check::Gone);
}
