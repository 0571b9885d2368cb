use super::super::histogram;
use super::*;

#[test]
fn a_histogram_that_gets_the_pairs_of_another_is_equal_to_it() {
    let mut random = fastrand::Rng::with_seed(leno_testing::seed());
    let mut first = histogram();
    for us in [0, 1, 2047, 2048, 60_000_000, 65_000_000, u64::MAX] {
        first.saturating_record(us);
    }
    for _ in 0..1_000 {
        first.saturating_record(random.u64(..) >> random.u32(40..64));
    }
    let mut second = histogram();
    Sparse::of(&first).add_to(&mut second).expect("counts of the same type");
    assert_eq!(first, second);
    let all = |us: &Histogram<u64>| [us.min(), us.max(), us.len(), us.mean().to_bits(), us.stdev().to_bits()];
    assert_eq!(all(&first), all(&second));
}

#[test]
fn a_value_above_the_maximum_counts_as_the_maximum_and_a_pair_without_calls_as_nothing() {
    let mut us = histogram();
    Sparse(vec![(u64::MAX, 2), (5, 0)]).add_to(&mut us).expect("small counts");
    assert_eq!((us.len(), us.max()), (2, us.highest_equivalent(us.high())));
    assert_eq!(us.min(), us.lowest_equivalent(us.high()));
}

#[test]
fn counts_saturate_and_one_that_a_counter_cannot_hold_is_an_error() {
    let mut us = Histogram::<u32>::new_with_bounds(1, 1_000, 2).expect("good bounds");
    let most = Sparse(vec![(7, u64::from(u32::MAX))]);
    most.add_to(&mut us).and_then(|()| most.add_to(&mut us)).expect("the largest count");
    assert_eq!(us.count_at(7), u32::MAX);
    let error = Sparse(vec![(7, 1 << 32)]).add_to(&mut us).expect_err("33 bits");
    assert_eq!(error, "4294967296 calls of 7 us are too many");
    assert_eq!(Sparse(vec![(1, u64::MAX), (2, 1)]).calls(), u64::MAX);
}
