use super::*;
use crate::cluster::clock::BootInstant;
use crate::cluster::reader::News;
use crate::cluster::readings::SECOND;
use crate::cluster::source::tests::proxy_of;

const EARLY: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(100);

fn page(count: u64) -> String {
    format!(
        "inbound_http_authz_deny_total{{target_port=\"80\",client_id=\"spiffe://x/ns/shop/sa/web\",\
         authz_kind=\"authorizationpolicy\",authz_name=\"shop/only-mail\"}} {count}\n"
    )
}

/// The readings of Pods of the workload shop/cart. For each Pod, the argument has its metrics pages, a second apart.
fn readings(pods: &[&[&str]]) -> Readings {
    let (mut readings, start) = (Readings::since_start(), BootInstant::now());
    let pods = || (0..).zip(pods).map(|(number, pages)| (proxy_of("cart", &format!("cart-{number}")), pages));
    readings.take(News::Proxies(pods().map(|(proxy, _)| proxy).collect()));
    for (proxy, pages) in pods() {
        for (second, page) in (0..).zip(*pages) {
            readings.take(News::Page(proxy.clone(), Scrape::parse(page), start + SECOND * second));
        }
    }
    readings
}

#[test]
fn a_denial_names_the_caller_and_the_policy_and_is_recent_while_it_grows() {
    let mut denials = Denials::default();
    denials.take(&readings(&[&[&page(3)]]), EARLY);
    let [old] = &denials.rows(EARLY, |_| true)[..] else { panic!("one row") };
    assert_eq!((&*old.key.caller, &*old.key.policy.to_string()), ("shop/web", "AuthorizationPolicy shop/only-mail"));
    assert_eq!((old.total, old.is_recent), (3.0, false));
    denials.take(&readings(&[&[&page(3), &page(5)]]), LATE);
    let rows = denials.rows(LATE, |_| true);
    assert_eq!((rows[0].total, rows[0].is_recent, rows[0].last_s), (5.0, true, Some(0)));
    assert!(!denials.rows(LATE + 2 * RECENT, |_| true)[0].is_recent);
}

#[test]
fn the_first_denial_is_recent_if_the_proxys_earlier_page_does_not_have_it() {
    let first = |pages: &[&str]| {
        let mut denials = Denials::default();
        denials.take(&readings(&[pages]), EARLY);
        denials.rows(EARLY, |_| true)[0].is_recent
    };
    assert!(first(&["", &page(1)]));
    assert!(first(&[&page(1), &page(2)]));
    assert!(!first(&[&page(1), &page(1)]));
    assert!(!first(&[&page(1)]));
}

#[test]
fn old_denials_of_a_proxy_that_answers_later_than_others_are_not_recent() {
    let mut denials = Denials::default();
    denials.take(&readings(&[&[&page(3)], &[]]), EARLY);
    denials.take(&readings(&[&[&page(3), &page(3)], &[&page(4)]]), 2 * EARLY);
    let [row] = &denials.rows(2 * EARLY, |_| true)[..] else { panic!("one row") };
    assert_eq!((row.total, row.is_recent), (7.0, false));
}
