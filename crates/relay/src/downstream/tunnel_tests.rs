use super::*;

const BOUND: usize = 16 << 20;

#[test]
fn few_streams_hold_much_each_and_many_streams_hold_their_share() {
    for (streams, kib) in [(1, 256), (16, 256), (17, 64), (128, 64), (512, 16), (5_000, 4)] {
        assert_eq!(share_bytes(BOUND, streams), kib << 10, "{streams} streams");
    }
}

#[test]
fn the_shares_of_any_usual_number_of_streams_fit_into_the_bound() {
    for streams in 1..=4_096 {
        assert!(share_bytes(BOUND, streams) * streams <= BOUND, "{streams} streams");
    }
}
