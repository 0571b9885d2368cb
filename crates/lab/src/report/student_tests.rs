use super::*;

fn about(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 0.001, "{found} instead of {wanted}");
}

#[test]
fn the_interval_is_as_computed_by_hand() {
    // Mean 5, standard deviation 2.138, its standard error 0.7559, t for 7 degrees of freedom 2.365.
    let mean = Mean::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("values");
    about(mean.value, 5.0);
    about(mean.plus_minus.expect("eight repeats"), 1.7877);
}

#[test]
fn two_repeats_have_an_interval_and_one_has_none() {
    about(Mean::of(&[1.0, 3.0]).and_then(|mean| mean.plus_minus).expect("two repeats"), 12.706);
    assert_eq!(Mean::of(&[3.0]), Some(Mean { value: 3.0, plus_minus: None }));
    assert_eq!(Mean::of(&[]), None);
    assert_eq!(Mean::of(&[1.0, f64::INFINITY]), None);
}

#[test]
fn the_quantile_goes_on_beyond_the_table() {
    about(t(30).expect("in the table"), 2.042);
    about(t(40).expect("beyond it"), 2.0211);
    about(t(120).expect("beyond it"), 1.9799);
}

#[test]
fn nine_or_ten_of_ten_intervals_have_the_true_mean() {
    let mut random = fastrand::Rng::with_seed(4);
    let has_zero = (0..2000).filter(|_| {
        // The sum of twelve uniform values is nearly normal.
        let normal: Vec<f64> = (0..5).map(|_| (0..12).map(|_| random.f64() - 0.5).sum()).collect();
        let mean = Mean::of(&normal).expect("values");
        mean.value.abs() <= mean.plus_minus.expect("five repeats")
    });
    let share = has_zero.count() as f64 / 2000.0;
    assert!((0.93..0.97).contains(&share), "{share}");
}
