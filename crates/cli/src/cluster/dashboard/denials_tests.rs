use super::super::mesh::tests::readings;
use super::*;

fn page(count: u64) -> String {
    format!(
        "inbound_http_authz_deny_total{{target_port=\"80\",client_id=\"spiffe://x/ns/shop/sa/web\",\
         authz_kind=\"authorizationpolicy\",authz_name=\"shop/only-mail\"}} {count}\n"
    )
}

#[test]
fn a_denial_names_the_caller_and_the_policy_and_is_recent_while_it_grows() {
    let mut denials = Denials::default();
    let (early, late) = (Duration::from_secs(1), Duration::from_secs(100));
    denials.take(&readings(&[("cart", &page(3))]), early);
    let [old] = &denials.rows(early, |_| true)[..] else { panic!("one row") };
    assert_eq!((&*old.key.caller, &*old.key.policy), ("shop/web", "AuthorizationPolicy shop/only-mail"));
    assert_eq!((old.total, old.is_recent), (3.0, false));
    denials.take(&readings(&[("cart", &page(5))]), late);
    let rows = denials.rows(late, |_| true);
    assert_eq!((rows[0].total, rows[0].is_recent, rows[0].last_s), (5.0, true, Some(0)));
    assert!(!denials.rows(late + 2 * RECENT, |_| true)[0].is_recent);
}
