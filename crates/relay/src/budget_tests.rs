use super::*;

const MIB: usize = 1 << 20;

#[test]
fn windows_are_held_above_half_of_the_budget_until_enough_was_given_back() {
    let mut budget = Budget::new(8 * MIB);
    assert_eq!(budget.tightness_changed(4 * MIB), None);
    assert_eq!(budget.tightness_changed(4 * MIB + 1), Some(true));
    assert_eq!(budget.tightness_changed(7 * MIB), None, "it is told once");
    assert_eq!(budget.tightness_changed(3 * MIB + 1), None, "a little less is not enough");
    assert_eq!(budget.tightness_changed(3 * MIB), Some(false));
}

#[test]
fn a_charge_replaces_the_one_before() {
    let mut budget = Budget::new(MIB);
    budget.charge(0, 10);
    budget.charge(0, 5);
    budget.charge(10, 30);
    assert_eq!(budget.charged_bytes, 35);
    budget.charge(30, 0);
    budget.charge(5, 0);
    assert_eq!(budget.charged_bytes, 0);
}

#[test]
fn what_is_not_measured_is_at_most_an_eighth_of_the_budget_together() {
    let budget = Budget::new(16 * MIB);
    assert_eq!(budget.negligible_bytes(0), 2 * MIB);
    assert_eq!(budget.negligible_bytes(100), 20_971);
    for connections in [1, 100, 8_000, 100_000] {
        assert!(budget.negligible_bytes(connections) * connections <= 2 * MIB);
    }
}
