use super::*;

#[test]
fn quantiles_are_those_of_the_tables() {
    let known =
        [(1.0, 12.706), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042), (31.0, 2.040), (60.0, 2.000), (120.0, 1.980)];
    for (freedom, wanted) in known {
        let found = standard_errors(freedom).unwrap_or(f64::NAN);
        assert!((found - wanted).abs() < 0.001, "{freedom}: {found}");
    }
    let endless = standard_errors(f64::INFINITY).unwrap_or(f64::NAN);
    assert!((endless - TAIL_DEVIATIONS).abs() < 1e-9, "{endless}");
}

#[test]
fn quantiles_descend_and_fractions_of_a_degree_are_ignored() {
    let all: Vec<f64> = (1..200).map(|freedom| standard_errors(f64::from(freedom)).expect("an interval")).collect();
    assert!(all.is_sorted_by(|less, more| less >= more), "{all:?}");
    assert_eq!(standard_errors(4.99), standard_errors(4.0));
    assert_eq!((standard_errors(0.99), standard_errors(f64::NAN)), (None, None));
}
