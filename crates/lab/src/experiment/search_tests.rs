use super::*;

/// Searches from `first` with a target that sustains up to `capacity` calls per second. Returns the result and the
/// tried rates.
fn search(first: u32, capacity: u32) -> (u32, Vec<u32>) {
    let mut search = Search::from(first);
    let mut tried = Vec::new();
    while let Some(rate) = search.next() {
        tried.push(rate);
        assert!(tried.len() < 40, "{tried:?}");
        search.note(rate, rate <= capacity);
    }
    (search.found(), tried)
}

#[test]
fn the_capacity_is_found_within_five_percent_from_below_wherever_the_search_begins() {
    for capacity in [11, 100, 999, 12_345, 80_000, 999_000] {
        for first in [1, 100, 5_000, 2_000_000] {
            let (found, tried) = search(first, capacity);
            let close = found <= capacity && f64::from(found) * 1.1 + 1.0 >= f64::from(capacity);
            assert!(close, "{found} instead of {capacity}: {tried:?}");
            assert!(tried.len() <= 24, "{tried:?}");
        }
    }
}

#[test]
fn rates_double_and_then_close_in() {
    let (_, tried) = search(1000, 5000);
    assert_eq!(tried[..4], [1000, 2000, 4000, 8000]);
    assert_eq!(tried[4], 5657);
}

#[test]
fn a_target_that_sustains_nothing_or_everything_ends_the_search() {
    assert_eq!(search(1000, 0), (0, vec![1000, 500, 250, 125, 62, 31, 15, 10]));
    assert_eq!(search(600_000, u32::MAX).0, 1_000_000);
}
