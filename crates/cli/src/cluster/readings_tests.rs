use super::*;
use crate::cluster::source::tests::proxy;

/// Returns the growth per second after a counter was read with these values, every two seconds.
fn readings(mut readings: Readings, values: &[u64]) -> f64 {
    let start = BootInstant::now();
    readings.take(News::Proxies([proxy()].into()));
    for (place, value) in (0..).zip(values) {
        let page = Scrape::parse(&format!("request_total {value}"));
        readings.take(News::Page(proxy(), page, start + 2 * SECOND * place));
    }
    rate(&readings)
}

fn rate(readings: &Readings) -> f64 {
    let proxies = readings.measured().flat_map(|measured| &measured.proxies);
    proxies.map(|growth| growth.grown.sum("request_total", &[])).sum()
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

#[test]
fn the_first_growth_after_a_silence_is_not_mixed_with_the_silence() {
    let (mut readings, start) = (Readings::with_means(Duration::from_secs(10)), BootInstant::now());
    readings.take(News::Proxies([proxy()].into()));
    let page = |value: u32, at_s: u32| {
        News::Page(proxy(), Scrape::parse(&format!("request_total {value}")), start + SECOND * at_s)
    };
    readings.take(page(0, 0));
    readings.take(page(20, 2));
    readings.take(News::Silent(proxy(), "no answer".to_owned()));
    assert_eq!(rate(&readings), 0.0);
    readings.take(page(100, 10));
    assert_eq!(rate(&readings), 10.0);
    assert!(readings.members().all(|member| member.is_counted));
}

#[test]
fn growth_since_the_start_counts_all_calls_alike_whenever_they_happened() {
    let since_start = |values: &[u64]| readings(Readings::since_start(), values);
    assert_eq!(since_start(&[7, 27]), 10.0);
    // In each series, one call happens in 5 minutes: at the start, at the end, or before a restart of the proxy.
    for values in [&[&[0][..], &[1; 150]].concat(), &[&[0; 150][..], &[1]].concat(), &[&[8, 9][..], &[0; 149]].concat()]
    {
        let calls = since_start(values) * 300.0;
        assert!((calls - 1.0).abs() < 1e-9, "{calls}");
    }
}

#[test]
fn a_restart_forgets_no_growth_since_the_start() {
    let (mut readings, start) = (Readings::since_start(), BootInstant::now());
    readings.take(News::Proxies([proxy()].into()));
    // After its restart, the proxy has no series of the calls until it counts such a call.
    for (second, page) in (0..).zip(["request_total 0", "request_total 20", "up 1", "up 1", "up 1\nrequest_total 5"]) {
        readings.take(News::Page(proxy(), Scrape::parse(page), start + SECOND * second));
    }
    let calls = rate(&readings) * 4.0;
    assert!((calls - 25.0).abs() < 1e-9, "{calls}");
}

#[test]
fn a_silence_forgets_no_growth_since_the_start() {
    let (mut readings, start) = (Readings::since_start(), BootInstant::now());
    readings.take(News::Proxies([proxy()].into()));
    for (value, at_s) in [(0, 0), (16, 2), (32, 8)] {
        readings.take(News::Silent(proxy(), "no answer".to_owned()));
        readings.take(News::Page(proxy(), Scrape::parse(&format!("request_total {value}")), start + SECOND * at_s));
    }
    assert_eq!(rate(&readings), 4.0);
    readings.take(News::Silent(proxy(), "no answer".to_owned()));
    assert_eq!(rate(&readings), 4.0);
}
