use super::*;

const PAGE: &str = r#"# HELP request Calls that began
# TYPE request counter
request_total{direction="inbound",target_port="80",tls="true",client_id="spiffe://a/ns/b/sa/c"} 7
request_total{direction="inbound",target_port="80",tls="no_identity"} 3
request_total{direction="outbound"} 100
leno_build_info{version="0.1.0"} 1
control_identity_cert_expiration_timestamp_seconds 1700086400.5
odd{a="x\"y\\z\n,}",b=""} 1.5 1700000000
# EOF
"#;

#[test]
fn samples_are_added_up_by_their_labels() {
    let scrape = Scrape::parse(PAGE);
    assert_eq!(scrape.sum("request_total", &[("direction", "inbound")]), 10.0);
    assert_eq!(scrape.sum("request_total", &[("direction", "inbound"), ("tls", "true")]), 7.0);
    assert_eq!(scrape.sum("request_total", &[("direction", "inboun")]), 0.0);
    assert_eq!(scrape.sum("request", &[]).to_string(), "0");
}

#[test]
fn labels_are_unescaped_and_one_that_is_missing_is_empty() {
    let scrape = Scrape::parse(PAGE);
    let odd = scrape.all("odd", &[]).next().expect("a sample");
    assert_eq!((odd.label("a"), odd.label("b"), odd.label("c")), ("x\"y\\z\n,}", "", ""));
    assert_eq!(odd.value, 1.5);
}

#[test]
fn a_moment_is_seconds_since_1970() {
    let expires = Scrape::parse(PAGE).time("control_identity_cert_expiration_timestamp_seconds");
    assert_eq!(expires, Some(UNIX_EPOCH + Duration::from_millis(1_700_086_400_500)));
    assert_eq!(Scrape::parse("a -1").time("a"), None);
    assert_eq!(Scrape::parse("a NaN").time("a"), None);
}

#[test]
fn counters_are_compared_series_by_series_and_one_that_began_anew_counts_whole() {
    let before = Scrape::parse("a{x=\"1\"} 10\na{x=\"2\"} 100\n");
    let after = Scrape::parse("a{x=\"1\"} 15\na{x=\"2\"} 3\na{x=\"3\"} 1\n");
    let grown = after.since(&before);
    let by = |x: &str| grown.sum("a", &[("x", x)]);
    assert_eq!([by("1"), by("2"), by("3")], [5.0, 3.0, 1.0]);
}

#[test]
fn after_a_restart_every_counter_grew_from_zero() {
    let page =
        |start: &str, calls: u32, failures: u32| Scrape::parse(&format!("{start}calls {calls}\nfailures {failures}"));
    let ratio = |before: &str, after: &str| {
        let grown = page(after, 90, 40).since(&page(before, 100, 10));
        (grown.sum("calls", &[]), grown.sum("failures", &[]))
    };
    let (early, late) = (format!("{START_TIME} 1700000000.25\n"), format!("{START_TIME} 1700000060.5\n"));
    assert_eq!(ratio(&early, &late), (90.0, 40.0));
    // Without the time of the start, only the counter that has become smaller is known to have begun again.
    for (before, after) in [("", ""), ("", &*late), (&*early, ""), (&*early, &*early)] {
        assert_eq!(ratio(before, after), (90.0, 30.0));
    }
}

#[test]
fn a_mean_keeps_a_sample_that_has_ended_until_it_is_small() {
    let sum = |page: &Scrape, x: &str| page.sum("a", &[("x", x)]);
    let earlier = Scrape::parse("a{x=\"1\"} 8\na{x=\"2\"} 4\na{x=\"3\"} 0.0015\na{x=\"4\"} NaN");
    let mean = Scrape::parse("a{x=\"5\"} 2\na{x=\"2\"} 0").mixed(&earlier, 0.5);
    assert_eq!(["1", "2", "5"].map(|x| sum(&mean, x)), [4.0, 2.0, 1.0]);
    assert_eq!(mean.samples.len(), 3, "the sample that is too small has ended: {mean:?}");
    let mut mean = mean;
    for _ in 0..20 {
        mean = Scrape::parse("a{x=\"5\"} 2").mixed(&mean, 0.5);
    }
    assert_eq!(mean.samples.len(), 1, "{mean:?}");
}

#[test]
fn labels_with_the_same_text_and_other_ends_are_other_labels() {
    let before = Scrape::parse("a{x=\"1\",y=\"\"} 1\na{x=\"1y\"} 2\nax{b=\"\"} 3\na{xb=\"\"} 4");
    let after = Scrape::parse("a{xb=\"\"} 40\nax{b=\"\"} 30\na{x=\"1y\"} 20\na{x=\"1\",y=\"\"} 10");
    let grown = after.since(&before);
    let of = |name: &str, labels: &[(&str, &str)]| grown.sum(name, labels);
    assert_eq!((of("a", &[("x", "1")]), of("a", &[("x", "1y")]), of("ax", &[]), of("a", &[])), (9.0, 18.0, 27.0, 63.0));
    let mut page = Scrape::default();
    page.add("a", &[("x".to_owned(), "1".to_owned()), ("y".to_owned(), "z".to_owned())], 1.0);
    assert_eq!(page.samples[0].series, Scrape::parse("a{x=\"1\",y=\"z\"} 1").samples[0].series);
}

#[test]
fn lines_of_other_shapes_are_left_out() {
    for line in ["a", "a{", "a{b=\"c\"", "a{b=\"c} 1", "a{b=c} 1", "a b", "{} ", "a{b=\"\\"] {
        let read = Scrape::parse(line);
        assert!(read.samples.is_empty(), "{line}: {read:?}");
    }
}
