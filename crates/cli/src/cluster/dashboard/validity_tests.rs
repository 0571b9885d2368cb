use std::time::UNIX_EPOCH;

use super::*;

fn page(end_s: u64, lifetime_s: Option<u64>) -> Scrape {
    let issued = lifetime_s.map(|all| format!("control_identity_cert_refresh_timestamp_seconds {}\n", end_s - all));
    Scrape::parse(&format!(
        "control_identity_cert_expiration_timestamp_seconds {end_s}\n{}",
        issued.unwrap_or_default()
    ))
}

#[test]
fn a_certificate_is_judged_by_the_part_of_its_lifetime_that_is_left() {
    let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let level = |left_s: u64, lifetime_s: Option<u64>| {
        Validity::of_certificate(&page(1_000_000 + left_s, lifetime_s)).expect("a certificate").level(now)
    };
    assert_eq!((level(200, Some(1_000)), level(90, Some(1_000))), (Level::Good, Level::Warning));
    assert_eq!((level(8_000, None), level(7_000, None)), (Level::Good, Level::Warning));
    let past = Validity::of_certificate(&page(999_999, None)).expect("a certificate");
    assert_eq!(past.level(now), Level::Error);
    assert!(Validity::of_certificate(&Scrape::default()).is_none());
}

#[test]
fn a_short_certificate_ends_with_its_authority() {
    let ends = |lifetime_s| {
        Validity::of_certificate(&page(1_000_000, lifetime_s)).expect("a certificate").ends_with_authority()
    };
    assert!(ends(Some(600)) && !ends(Some(SVID_LIFETIME.as_secs())) && !ends(None));
}
