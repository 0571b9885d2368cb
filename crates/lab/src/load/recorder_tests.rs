use bytes::Bytes;

use super::*;

#[test]
fn what_comes_while_somebody_looks_is_handed_over_later_and_nobody_waits() {
    let start = Instant::now();
    let shared = Arc::new(Mutex::new(Stats::new(1)));
    lock(&shared).measure(start, start, start + Duration::from_secs(1));
    let mut recorder = Recorder::new(&["s1".to_owned()], &shared);
    let looking = lock(&shared);
    recorder.ended(start, start, Ok(Bytes::from_static(b"s1")));
    recorder.hand_over();
    assert_eq!(looking.snapshot(start).total.calls, 0);
    drop(looking);
    recorder.ended(start, start, Ok(Bytes::from_static(b"s2")));
    recorder.hand_over();
    let snapshot = lock(&shared).snapshot(start);
    assert_eq!((snapshot.total.calls, snapshot.failed), (1, 1));
    assert_eq!(snapshot.first_failure.as_deref(), Some("an unknown server answered: \"s2\""));
}
