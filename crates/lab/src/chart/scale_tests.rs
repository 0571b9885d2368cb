use super::*;

fn ruler(scale: Scale, values: &[f64]) -> Ruler {
    Ruler::new(scale, values.iter().copied(), true).expect("values that can be shown")
}

#[test]
fn linear_ticks_are_round_and_begin_at_zero() {
    assert_eq!(ruler(Scale::Linear, &[3.0, 47.0]).ticks(5), [0.0, 10.0, 20.0, 30.0, 40.0]);
    assert_eq!(ruler(Scale::Linear, &[0.1, 0.9]).ticks(5), [0.0, 0.2, 0.4, 0.6, 0.8]);
    assert_eq!(ruler(Scale::Linear, &[81_000.0]).ticks(5), [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0]);
}

#[test]
fn logarithmic_ticks_are_fewer_the_longer_the_axis() {
    assert_eq!(ruler(Scale::Log, &[1.4, 60.0]).ticks(6), [2.0, 5.0, 10.0, 20.0, 50.0]);
    assert_eq!(ruler(Scale::Log, &[2.0, 500.0]).ticks(6), [3.0, 10.0, 30.0, 100.0, 300.0]);
    assert_eq!(ruler(Scale::Log, &[0.01, 9000.0]).ticks(6), [0.01, 1.0, 100.0, 10_000.0]);
    assert!(ruler(Scale::Log, &[1e-9, 1e9]).ticks(7).len() <= 7);
}

#[test]
fn a_short_logarithmic_axis_still_has_ticks() {
    let ticks = ruler(Scale::Log, &[24.0, 27.0]).ticks(5);
    assert!((2..=6).contains(&ticks.len()), "{ticks:?}");
}

#[test]
fn quantiles_are_equally_far_apart_by_nines() {
    let ruler = Ruler::new(Scale::Quantile, [0.9, 0.999].into_iter(), false).expect("two quantiles");
    assert!((ruler.position(0.99).unwrap_or_default() - 0.5).abs() < 1e-9);
    assert_eq!(ruler.position(1.0), None);
    let texts: Vec<String> = ruler.ticks(9).iter().map(|&tick| ruler.tick_text(tick)).collect();
    assert_eq!(texts, ["90 %", "99 %", "99.9 %"]);
}

#[test]
fn steps_are_equally_far_apart_however_large() {
    let ruler = ruler(Scale::Steps, &[200.0, 0.0, 50.0, 50.0]);
    assert_eq!([0.0, 50.0, 200.0].map(|step| ruler.position(step)), [Some(0.0), Some(0.5), Some(1.0)]);
    assert_eq!(ruler.ticks(9), [0.0, 50.0, 200.0]);
}

#[test]
fn what_cannot_be_shown_has_no_position_and_one_value_stands_within() {
    assert!(Ruler::new(Scale::Log, [0.0, -1.0, f64::NAN, f64::INFINITY].into_iter(), true).is_none());
    for scale in [Scale::Linear, Scale::Log, Scale::Steps] {
        let position = ruler(scale, &[7.0]).position(7.0).expect("the value itself");
        assert!((0.0..=1.0).contains(&position), "{scale:?}");
    }
    assert_eq!(ruler(Scale::Linear, &[0.0]).position(0.0), Some(0.5));
}
