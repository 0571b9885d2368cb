use super::*;
use crate::cluster::source::tests::proxy;

/// Returns the growth per second after readings of these values of a counter, two seconds apart.
fn readings(mut readings: Readings, values: &[u64]) -> f64 {
    let start = Instant::now();
    readings.take(News::Proxies([proxy()].into()));
    for (place, value) in (0..).zip(values) {
        let page = Scrape::parse(&format!("request_total {value}"));
        readings.take(News::Page(proxy(), page, start + 2 * SECOND * place));
    }
    readings
        .measured()
        .flat_map(|measured| &measured.proxies)
        .map(|growth| growth.grown.sum("request_total", &[]))
        .sum()
}

#[test]
fn growth_is_per_second_between_the_last_two_readings() {
    assert_eq!(readings(Readings::default(), &[100]), 0.0);
    assert_eq!(readings(Readings::default(), &[0, 10, 40]), 15.0);
}

#[test]
fn a_mean_follows_the_growth_and_ends_without_new_calls() {
    let mean = |values: &[u64]| readings(Readings::with_means(Duration::from_secs(10)), values);
    assert_eq!(mean(&[0, 20]), 10.0);
    let fading = mean(&[0, 20, 20, 20]);
    assert!((6.0..7.0).contains(&fading), "{fading}");
    assert_eq!(mean(&[&[0, 20][..], &[20; 60]].concat()), 0.0);
}
