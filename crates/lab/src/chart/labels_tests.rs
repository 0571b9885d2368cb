use super::*;

#[test]
fn labels_far_apart_stay_where_they_are() {
    assert_eq!(spread(&[80.0, 10.0, 40.0], 12.0, (0.0, 100.0)), [80.0, 10.0, 40.0]);
}

#[test]
fn equal_labels_are_centred_on_where_they_belong() {
    assert_eq!(spread(&[50.0, 50.0, 50.0], 10.0, (0.0, 100.0)), [40.0, 50.0, 60.0]);
}

#[test]
fn labels_at_an_edge_stay_within_it() {
    assert_eq!(spread(&[100.0, 99.0], 10.0, (0.0, 100.0)), [100.0, 90.0]);
    assert_eq!(spread(&[0.0, 1.0], 10.0, (0.0, 100.0)), [0.0, 10.0]);
}

#[test]
fn blocks_that_grow_into_each_other_become_one() {
    let places = spread(&[50.0, 51.0, 52.0, 68.0, 69.0], 10.0, (0.0, 200.0));
    assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 10.0 - 1e-9), "{places:?}");
}
