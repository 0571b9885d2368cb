use super::*;

fn chain(number: usize) -> [CertificateDer<'static>; 1] {
    [CertificateDer::from(number.to_be_bytes().to_vec())]
}

fn wire(number: u32) -> WireId {
    WireId::numbered(number)
}

/// Calls `look` for every connection that is due, slice by slice. Returns the number of connections, and of slices.
fn run(recheck: &mut Recheck, mut look: impl FnMut(&mut Recheck, WireId)) -> (usize, usize) {
    let (mut looked, mut slices) = (0, 0);
    while let Some(at) = recheck.next_slice(Instant::now()) {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let Some(end) = recheck.begin_slice(Instant::now()) else { continue };
        slices += 1;
        while let Some(link) = recheck.next(end) {
            looked += 1;
            look(recheck, link);
        }
    }
    (looked, slices)
}

#[test]
fn eight_thousand_peers_with_few_chains_are_looked_at_within_a_second() {
    let mut recheck = Recheck::default();
    recheck.begin((0..8_000).map(wire));
    let mut verified = 0;
    let (looked, slices) = run(&mut recheck, |recheck, wire| {
        let (number, is_good) = (wire.place() as usize % 48, wire.place() % 2 == 0);
        let verdict = recheck.verdict(&chain(number), |_| {
            verified += 1;
            // Sleep for longer than the verification of one chain takes, even in a debug build.
            std::thread::sleep(Duration::from_millis(1));
            if is_good { Ok(()) } else { Err(rustls::Error::DecryptError) }
        });
        assert_eq!(verdict.is_ok(), is_good);
    });
    assert_eq!((looked, verified), (8_000, 48));
    // Count the slices instead of measuring the time: a machine that stalls lengthens a slice, but adds few slices.
    let takes = (SLICE + PAUSE) * u32::try_from(slices).expect("few slices");
    assert!(takes < Duration::from_secs(1), "{slices} slices");
}

#[test]
fn calls_wait_for_one_slice_at_most_and_the_next_one_begins_after_a_pause() {
    let mut recheck = Recheck::default();
    recheck.begin((0..40).map(wire));
    let (looked, slices) = run(&mut recheck, |_, _| std::thread::sleep(Duration::from_millis(1)));
    assert!(looked == 40 && slices >= 8, "{slices} slices");
    recheck.add(wire(0));
    let now = Instant::now();
    assert!(recheck.begin_slice(now).is_none() && recheck.next_slice(now).is_some_and(|at| at <= now + PAUSE));
}

#[test]
fn a_deferred_connection_is_looked_at_again_after_the_next_sweep_only() {
    let mut recheck = Recheck::default();
    recheck.begin(std::iter::once(wire(7)));
    assert_eq!(run(&mut recheck, Recheck::defer).0, 1);
    assert_eq!(recheck.next_slice(Instant::now()), None);
    recheck.sweep();
    assert_eq!(run(&mut recheck, |_, link| assert_eq!(link, wire(7))).0, 1);
}

#[test]
fn verdicts_are_good_for_one_round_and_one_identity() {
    let mut recheck = Recheck::default();
    let ask = |recheck: &mut Recheck| {
        let mut is_new = false;
        let verdict = recheck.verdict(&chain(1), |_| {
            is_new = true;
            Ok(())
        });
        assert_eq!(verdict, Ok(()));
        is_new
    };
    assert!(ask(&mut recheck) && !ask(&mut recheck));
    recheck.forget_verdicts();
    assert!(ask(&mut recheck));
    recheck.begin(std::iter::once(wire(0)));
    assert!(ask(&mut recheck) && !ask(&mut recheck));
    run(&mut recheck, |_, _| {});
    assert!(ask(&mut recheck));
}

#[test]
fn no_more_verdicts_are_remembered_than_the_limit_and_none_after_the_round() {
    let mut recheck = Recheck::default();
    recheck.begin(std::iter::once(wire(0)));
    (0..MAX_VERDICTS + 10).for_each(|number| drop(recheck.verdict(&chain(number), |_| Ok(()))));
    assert_eq!(recheck.verdicts.by_digest.len(), MAX_VERDICTS);
    run(&mut recheck, |_, _| {});
    assert!(recheck.verdicts.by_digest.is_empty());
}
