use leno_http2::StreamKey;
use leno_model::traffic::GrpcCodes;

use super::*;
use crate::downstream::client::ClientId;
use crate::pool::hop::Protocol;

fn section(fields: &[(&str, &str)]) -> FieldSection {
    let mut section = FieldSection::new();
    fields.iter().for_each(|(name, value)| section.push(name.as_bytes(), value.as_bytes()));
    section
}

fn retry() -> Retry {
    let backoff = Duration::from_millis(20);
    Retry { http_codes: [503].into(), grpc_codes: GrpcCodes::like_http(&[503]), attempts: 2, backoff }
}

fn call(now: Instant, fields: &[(&str, &str)]) -> Call {
    let client = Some(ClientId::numbered(0));
    Call::new((client, StreamKey::numbered(1)), section(fields), Protocol::Http2, true, now)
}

#[test]
fn a_call_is_sent_again_as_often_as_its_rule_says_after_pauses_that_grow() {
    let now = Instant::now();
    let mut call = call(now, &[]);
    assert_eq!(pause(&call, &retry(), Wait::BackOff, (now, None), 0), Ok(Duration::from_millis(20)));
    call.retries = 1;
    assert_eq!(pause(&call, &retry(), Wait::BackOff, (now, None), 0), Ok(Duration::from_millis(40)));
    call.retries = 2;
    assert_eq!(pause(&call, &retry(), Wait::BackOff, (now, None), 0), Err(Unretried::Attempts));
}

#[test]
fn a_pause_that_the_server_asks_for_is_kept_unless_it_is_long() {
    let now = Instant::now();
    let (call, second) = (call(now, &[("content-type", "application/grpc")]), Duration::from_secs(1));
    let after = |asked| pause(&call, &retry(), Wait::Asked(asked), (now, None), 0);
    assert_eq!(after(Pushback::Wait(second)), Ok(second));
    assert_eq!(after(Pushback::Wait(Duration::ZERO)), Ok(Duration::ZERO));
    assert_eq!(after(Pushback::Wait(11 * second)), Err(Unretried::Pushback));
    // In HTTP, the pause is at least the rule's back-off, even if the server asks for a retry at once.
    let http = self::call(now, &[]);
    assert_eq!(
        pause(&http, &retry(), Wait::Asked(Pushback::Wait(Duration::ZERO)), (now, None), 0),
        Ok(retry().backoff)
    );
    assert_eq!(after(Pushback::Stop), Err(Unretried::Pushback));
}

#[test]
fn what_cannot_be_repeated_and_what_the_client_repeats_itself_is_not_sent_again() {
    let now = Instant::now();
    let refused = |change: fn(&mut Call)| {
        let mut call = call(now, &[]);
        change(&mut call);
        pause(&call, &retry(), Wait::BackOff, (now, None), 0)
    };
    assert_eq!(refused(|call| call.replayable = false), Err(Unretried::Request));
    assert_eq!(refused(|call| call.response = crate::call::Response::Begun), Err(Unretried::Request));
    assert_eq!(refused(|call| call.client = None), Err(Unretried::Request));
    assert_eq!(refused(|call| call.is_tunnel = true), Err(Unretried::Request));
    let mut retried = call(now, &[("grpc-previous-rpc-attempts", "1")]);
    assert_eq!(pause(&retried, &retry(), Wait::BackOff, (now, None), 0), Err(Unretried::Client));
    // The relay ignores `grpc-previous-rpc-attempts` if it has retried the call, because it has then set the field
    // itself.
    retried.retries = 1;
    assert!(pause(&retried, &retry(), Wait::BackOff, (now, None), 0).is_ok());
}

#[test]
fn a_retry_that_would_begin_after_the_deadline_does_not_begin() {
    let now = Instant::now();
    let mut call = call(now, &[]);
    for (left_ms, expected) in [(20, Err(Unretried::Deadline)), (21, Ok(Duration::from_millis(20)))] {
        let at = now + Duration::from_millis(left_ms);
        call.deadline = Some(at);
        assert_eq!(pause(&call, &retry(), Wait::BackOff, (now, None), 0), expected, "{left_ms} ms are left");
        call.deadline = None;
        assert_eq!(
            pause(&call, &retry(), Wait::BackOff, (now, Some(at)), 0),
            expected,
            "the drain ends in {left_ms} ms"
        );
    }
    let wait = Duration::from_millis(300);
    for (left_ms, expected) in [(300, Err(Unretried::Deadline)), (301, Ok(wait))] {
        call.deadline = Some(now + Duration::from_millis(left_ms));
        assert_eq!(pause(&call, &retry(), Wait::AtLeast(wait), (now, None), 0), expected, "no connection before");
    }
    call.deadline = Some(now + Duration::from_millis(1));
    assert_eq!(pause(&call, &retry(), Wait::None, (now, None), 0), Ok(Duration::ZERO), "a retry at once");
}

#[test]
fn only_a_response_with_nothing_but_a_status_can_be_a_grpc_failure() {
    let ok = section(&[(":status", "200"), ("content-type", "application/grpc")]);
    assert!(!may_have_failed(&ok, false) && may_have_failed(&ok, true));
    assert!(may_have_failed(&section(&[(":status", "503")]), false));
}

#[test]
fn a_rules_codes_decide_and_for_grpc_also_what_a_gateway_answers() {
    let failed = |fields: &[(&str, &str)], is_grpc| is_failure(&retry(), &section(fields), is_grpc);
    assert!(failed(&[(":status", "200"), ("grpc-status", "14")], true));
    assert!(!failed(&[(":status", "200"), ("grpc-status", "14")], false));
    assert!(failed(&[(":status", "503")], true) && failed(&[(":status", "503")], false));
    // A gRPC client maps a gateway's 502 to UNAVAILABLE.
    assert!(failed(&[(":status", "502")], true) && !failed(&[(":status", "502")], false));
    assert!(!failed(&[(":status", "500")], true) && !failed(&[(":status", "200")], true));
    let by_http = Retry { grpc_codes: GrpcCodes::default(), http_codes: [500].into(), ..retry() };
    assert!(is_failure(&by_http, &section(&[(":status", "500")]), true));
}

#[test]
fn servers_ask_for_pauses_in_two_ways_and_proxies_for_none() {
    let seconds = |n| Some(Pushback::Wait(Duration::from_secs(n)));
    assert_eq!(asked_pause(&section(&[("retry-after", "2")]), false), seconds(2));
    assert_eq!(asked_pause(&section(&[("retry-after", "2")]), true), None);
    assert_eq!(asked_pause(&section(&[("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT")]), false), Some(Pushback::Stop));
    assert_eq!(asked_pause(&section(&[("grpc-retry-pushback-ms", "3000")]), true), seconds(3));
    assert_eq!(asked_pause(&section(&[("grpc-retry-pushback-ms", "-1")]), true), Some(Pushback::Stop));
    assert_eq!(asked_pause(&section(&[("leno-not-retried", "budget")]), false), Some(Pushback::Stop));
    assert_eq!(asked_pause(&section(&[]), true), None);
}

#[test]
fn only_calls_without_retries_left_are_marked() {
    let now = Instant::now();
    let marked = |why, content_type| {
        let mut call = call(now, &[("content-type", content_type)]);
        call.unretried = Some(why);
        let mut response = section(&[("grpc-retry-pushback-ms", "5")]);
        call.mark_unretried(&mut response);
        response.iter().map(|line| String::from_utf8_lossy(line.value).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(marked(Unretried::Budget, "application/grpc"), ["-1", "budget", "retry-budget-spent"]);
    assert_eq!(marked(Unretried::Attempts, "text/plain"), ["5", "attempts"]);
    for other in
        [Unretried::Deadline, Unretried::Pushback, Unretried::Client, Unretried::Request, Unretried::Connection]
    {
        assert_eq!(marked(other, "application/grpc"), ["5"]);
    }
}
