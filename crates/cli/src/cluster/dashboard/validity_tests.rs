use std::time::UNIX_EPOCH;

use super::*;
use crate::cluster::source::tests::proxy_of;

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
    let pod = proxy_of("web", "web-1");
    let ends = |proxy, lifetime_s| Validity::of_shortened(proxy, &page(1_000_000, lifetime_s)).is_some();
    assert!(ends(&pod, Some(600)) && !ends(&pod, Some(SVID_LIFETIME.as_secs())) && !ends(&pod, None));
    let laptop = ProxyAt::address(([127, 0, 0, 1], 4191).into());
    assert!(!ends(&laptop, Some(600)), "another authority may issue short certificates");
}

#[test]
fn the_last_trust_anchor_must_be_valid_for_two_months() {
    let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let level = |left_s: u64| {
        let end_s = 1_000_000 + left_s;
        let page = Scrape::parse(&format!("leno_trust_anchor_expiration_timestamp_seconds {end_s}\n"));
        Validity::of_last_anchor(&page).expect("an anchor").level(now)
    };
    const DAY_S: u64 = 86_400;
    assert_eq!((level(61 * DAY_S), level(59 * DAY_S)), (Level::Good, Level::Warning));
    assert!(Validity::of_last_anchor(&Scrape::default()).is_none());
}
