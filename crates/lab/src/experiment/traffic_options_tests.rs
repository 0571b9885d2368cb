use super::super::cases::tests::{error_of, options};
use super::*;

fn traffic(words: &str) -> Traffic {
    options(words).settings().unwrap_or_else(|error| panic!("{words}: {error}")).traffic
}

#[test]
fn the_answer_is_as_long_as_the_request_unless_it_has_a_size_of_its_own() {
    let sizes = |words| {
        let traffic = traffic(words);
        (traffic.request_bytes, traffic.response_bytes)
    };
    assert_eq!(sizes("slow-pod"), (50, 50));
    assert_eq!(sizes("slow-pod --payload-bytes 1024"), (1024, 1024));
    assert_eq!(sizes("slow-pod --payload-bytes 0 --response-bytes 2000"), (0, 2000));
    assert_eq!(sizes("slow-pod --response-bytes 2000"), (50, 2000));
    assert_eq!(sizes("crowd"), (1024, 1024));
    assert_eq!(sizes("ladder"), (0, 11));
    assert_eq!(sizes("ladder --payload-bytes 100"), (100, 100));
}

#[test]
fn a_ladder_warms_up_at_half_its_rate_unless_told_otherwise() {
    assert_eq!(traffic("ladder").warm_up_rate, WarmUpRate::Half);
    assert_eq!(traffic("ladder --warm-up-rate ramp").warm_up_rate, WarmUpRate::Ramp);
    assert_eq!(traffic("slow-pod --rate 100 --arrivals poisson").arrivals, Arrivals::Poisson);
}

#[test]
fn options_without_effect_are_named_with_the_fix() {
    for (words, flag, fix) in [
        ("tcp --payload-bytes 10", "--payload-bytes", "leave it out"),
        ("memory --exchange bidi-stream", "--exchange", "leave it out"),
        ("slow-pod --messages 3", "--messages", "use --exchange"),
        ("slow-pod --protocol http1 --exchange bidi-stream", "--exchange", "use --protocol grpc"),
        ("slow-pod --protocol http2 --exchange bidi-stream", "--exchange", "use --protocol grpc"),
        ("ladder --exchange server-stream", "--exchange", "use --protocol grpc"),
        ("slow-pod --arrivals poisson", "--arrivals", "give --rate"),
        ("slow-pod --rate 10,max --warm-up-rate half", "--warm-up-rate", "give --rate"),
        ("slow-pod --exchange server-stream --messages 1000 --skew-ms 10", "1000 messages", "use --messages 499"),
    ] {
        let error = error_of(words);
        assert!(error.contains(flag) && error.contains(fix), "{words}: {error}");
    }
}

#[test]
fn a_case_whose_calls_outlast_the_load_is_named_with_the_fix() {
    for (words, time, fix) in [
        (
            "slow-pod --exchange server-stream",
            "100 messages may take 20000 ms",
            "use --messages 24 or fewer, or lower --skew-ms",
        ),
        ("slow-pod --skew-ms 0,5000", "a call may take 5000 ms", "lower --skew-ms"),
        ("slow-pod --work-ms 3000 --spread-ms 2000 --skew-ms 0", "5000 ms", "lower --work-ms or --spread-ms"),
        ("tail --slow-ms 6000", "6000 ms", "lower --slow-ms"),
        ("methods --skew-ms 4900", "5000 ms", "lower --skew-ms"),
        ("graph --depth 3 --work-ms 1700", "5100 ms", "lower --work-ms or --depth"),
        ("retry-storm --work-ms 2500", "5000 ms", "lower --work-ms"),
        ("streams --exchange server-stream --messages 2 --work-ms 5000", "10000 ms", "lower --work-ms"),
    ] {
        let error = error_of(words);
        assert!(error.contains(time) && error.ends_with(fix), "{words}: {error}");
    }
    // These options are valid. A bidirectional stream may even be long, because the load ends it after the current
    // message.
    for words in ["streams --work-ms 100", "slow-pod --exchange server-stream --messages 24", "slow-pod --skew-ms 4999"]
    {
        traffic(words);
    }
}
