use super::*;

#[test]
fn a_tree_has_the_services_of_all_its_levels() {
    let services = |depth, fan_out| GraphShape { depth, fan_out }.services();
    assert_eq!([services(1, 8), services(3, 2), services(4, 1), services(3, 3)], [1, 7, 4, 13]);
    assert_eq!(GraphOptions::default().shape().services(), 7);
}
