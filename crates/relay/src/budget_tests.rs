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
