use super::*;

#[test]
fn lognormal_times_have_their_median_and_mean() {
    let times = ServiceTime::lognormal(5.0);
    let mut random = fastrand::Rng::with_seed(1);
    let mut drawn: Vec<f64> = (0..100_000).map(|_| times.draw_ms(&mut random)).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    assert!((drawn[50_000] - 5.0).abs() < 0.05, "{}", drawn[50_000]);
    assert!((mean - times.mean_ms()).abs() < 0.05, "{mean}");
}

#[test]
fn counted_times_are_drawn_as_often_as_they_were_counted() {
    let counts = Counts::parse("# ms count\n10 25\n\n1 75 # fast\n").expect("valid");
    let times = ServiceTime::Counted(Arc::new(counts));
    assert_eq!((times.median_ms(), times.mean_ms()), (1.0, 3.25));
    let mut random = fastrand::Rng::with_seed(1);
    let slow = (0..100_000).filter(|_| times.draw_ms(&mut random) == 10.0).count();
    assert!((24_000..26_000).contains(&slow), "{slow}");
}

#[test]
fn a_bad_line_is_named() {
    for bad in ["x 3", "3", "-1 3", "nan 3", "1 -3", "1 2 3"] {
        let why = Counts::parse(&format!("1 2\n{bad}\n")).expect_err(bad);
        assert!(why.starts_with("line 2:"), "{why}");
    }
    for empty in ["", "# nothing\n", "5 0\n"] {
        assert!(Counts::parse(empty).is_err(), "{empty:?}");
    }
}
