use super::*;

#[test]
fn a_figure_within_a_fifth_of_the_lower_ceiling_is_near() {
    let ceiling = Ceiling { load_rps: 80_000.0, backends_rps: 20_000.0 };
    assert!(ceiling.is_near(16_000.0));
    assert!(!ceiling.is_near(15_999.0));
    let ceiling = Ceiling { load_rps: 20_000.0, backends_rps: 80_000.0 };
    assert!(ceiling.is_near(16_000.0));
}
