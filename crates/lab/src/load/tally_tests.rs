use std::time::Instant;

use super::super::failure::Failure;
use super::super::stats::Stats;
use super::*;

const MS: Duration = Duration::from_millis(1);
const WARM_UP: Duration = Duration::from_millis(700);
const MEASURED: Duration = Duration::from_millis(2_340);

/// Records a random event: an answered or a failed call.
fn record(stats: &mut Stats, start: Instant, random: &mut fastrand::Rng) {
    let since = start + Duration::from_micros(random.u64(0..4_000_000));
    let took = Duration::from_micros(random.u64(..) >> random.u32(36..64));
    match random.u32(0..11) {
        10 => stats.fail(since, Failure::new(FailureClass::NotSent, "busy")),
        0 => stats.fail(since, Failure::new(FailureClass::Http(random.u16(500..520)), "busy")),
        1 => stats.sent(since, took),
        _ => stats.answer(since, random.usize(0..3), took),
    }
}

/// The statistics of one load that has all events, and of two loads that have every second event each.
fn whole_and_halves() -> (Stats, [Stats; 2]) {
    let start = Instant::now();
    let new = || {
        let mut stats = Stats::new(3);
        stats.measure(start, start + WARM_UP, start + WARM_UP + MEASURED);
        stats
    };
    let (mut whole, mut halves) = (new(), [new(), new()]);
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    for index in 0..5_000 {
        let seed = random.u64(..);
        for stats in [&mut whole, &mut halves[index % 2]] {
            record(stats, start, &mut fastrand::Rng::with_seed(seed));
        }
    }
    (whole, halves)
}

/// The recording in the form in which a process on another machine receives it.
fn received(recording: &Recording) -> Recording {
    let json = serde_json::to_vec(recording).expect("JSON");
    serde_json::from_slice(&json).expect("a recording")
}

/// Merges recordings, all of which must have as many servers as the first recording.
fn merged_as_first(recordings: &[Recording]) -> crate::error::Result<Snapshot> {
    Snapshot::merged(recordings, recordings.first().map_or(0, |first| first.servers_us.len()))
}

#[test]
fn a_recording_with_another_number_of_servers_is_refused() {
    let error = Snapshot::merged(&[Recording::default()], 5).expect_err("no server instead of five").to_string();
    assert!(error.starts_with("the recording of load 1: ") && !error.contains('\n'), "{error}");
}

#[test]
fn the_recordings_of_two_loads_give_the_numbers_of_one_load_with_all_calls() {
    let (whole, halves) = whole_and_halves();
    let recordings = halves.map(|stats| received(&stats.recording()));
    let merged = merged_as_first(&recordings).expect("good recordings");
    let expected = whole.finish();
    assert_eq!(merged, expected);
    assert_eq!(merged.measured, MEASURED);
    assert!(merged.answered > merged.total.calls, "{merged:?}");
    assert!(merged.errors() > 0 && merged.late > 0 && !merged.curve.is_empty(), "{merged:?}");
}

#[test]
fn the_recording_of_one_load_gives_its_numbers() {
    let (whole, _) = whole_and_halves();
    let merged = merged_as_first(&[received(&whole.recording())]).expect("a good recording");
    assert_eq!(merged, whole.finish());
}

/// The recording of a load of one server whose only call took 3 ms.
fn of_one_call(measured: Duration) -> Recording {
    let start = Instant::now();
    let mut stats = Stats::new(1);
    stats.measure(start, start, start + measured);
    stats.answer(start, 0, 3 * MS);
    stats.recording()
}

#[test]
fn a_shorter_load_adds_to_the_beginning_of_a_longer_one() {
    let recordings = [of_one_call(150 * MS), of_one_call(1_300 * MS)];
    let merged = merged_as_first(&recordings).expect("good recordings");
    assert_eq!(merged.measured, 1_300 * MS);
    let calls: Vec<u64> = merged.timeline.iter().map(|slice| slice.calls[0]).collect();
    assert_eq!(calls, [[2].as_slice(), &[0; 12]].concat());
    assert_eq!(merged.windows.iter().map(|window| window.calls).collect::<Vec<_>>(), [2, 0]);
    assert_eq!((merged.answered, merged.total.calls), (2, 2));
}

#[test]
fn loads_with_different_servers_and_broken_recordings_are_errors_that_say_which() {
    let error = |recordings: &[Recording]| merged_as_first(recordings).expect_err("an invalid recording").to_string();
    let two_servers = Stats::new(2).recording();
    let expected = "the recording of load 2: it has 2 servers, and the load has 1";
    assert_eq!(error(&[of_one_call(MS), two_servers]), expected);
    let broken = Recording { late: u64::MAX, ..of_one_call(MS) };
    assert!(error(&[of_one_call(MS), broken]).starts_with("the recording of load 2: 18446744073709551615 late calls"));
    assert_eq!(error(&[]), "merging the recordings of loads: there is none");
    let many = Stats::new(5_000).recording();
    assert_eq!(error(&[many]), "the recording of load 1: 5000 servers exceed the limit of 1000");
}

#[test]
fn the_first_reason_stays_and_a_long_one_is_cut() {
    let failed = |why: &str| {
        let mut stats = Stats::new(0);
        stats.fail(Instant::now(), Failure::protocol(why));
        stats.recording()
    };
    let merged = merged_as_first(&[Recording::default(), failed("first"), failed("second")]).expect("recordings");
    assert_eq!((merged.failed, merged.first_failure.as_deref()), (2, Some("first")));
    let merged = merged_as_first(&[failed(&"ä".repeat(5_000))]).expect("a reason within the limit");
    assert_eq!(merged.first_failure, Some("ä".repeat(REASON_MAX_CHARS)));
}

#[test]
fn classes_of_many_loads_stay_bounded() {
    let of = |codes: std::ops::Range<u32>| Recording {
        classes: codes.map(|code| (FailureClass::Reset(code), 1)).collect(),
        ..Recording::default()
    };
    let classes = merged_as_first(&[of(0..60), of(50..110)]).expect("good recordings").classes;
    assert_eq!((classes.len(), classes.values().sum::<u64>()), (CLASSES_MAX + 1, 120));
    assert_eq!(classes.get(&FailureClass::Reset(55)), Some(&2));
    assert_eq!(classes.get(&FailureClass::Other), Some(&46));
}
