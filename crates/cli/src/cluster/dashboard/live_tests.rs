use serde_json::json;

use super::*;
use crate::cluster::block_on;
use crate::cluster::readings::SECOND;
use crate::cluster::source::Proxies;
use crate::cluster::source::tests::proxy_of;

/// The `/balancer` page of a proxy with this number of endpoints of the Service `shop/cart`, and one of another
/// Service.
fn page(endpoints: usize, silent_workers: &[usize]) -> Reading {
    let endpoint = |number: usize| json!({"address": format!("10.0.0.1:{number}")});
    let page = json!({"clusters": [
        {"cluster": "cart.shop:80", "worker": 0, "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>()},
        {"cluster": "mail.shop:80", "worker": 0, "endpoints": [{"address": "10.0.0.2:80"}]},
    ], "silent_workers": silent_workers});
    (proxy_of("web", "web-1"), BootInstant::now(), page.to_string())
}

#[test]
fn an_answer_counts_the_endpoints_workers_and_proxies_that_it_lacks() {
    let unreadable = (proxy_of("web", "web-2"), BootInstant::now(), "no JSON".to_owned());
    let pages = [page(ENDPOINTS_MAX, &[]), page(3, &[1, 2]), unreadable];
    let asked = Asked { proxies: 3, proxies_omitted: 4, proxies_silent: 0 };
    let answer = serde_json::to_value(Endpoints::of(&pages, asked, "shop/cart")).expect("JSON");
    assert_eq!(answer["endpoints"].as_array().map(Vec::len), Some(ENDPOINTS_MAX));
    for (field, count) in
        [("omitted", 3), ("silent_workers", 2), ("proxies", 3), ("proxies_omitted", 4), ("proxies_silent", 1)]
    {
        assert_eq!(answer[field], count, "{field}");
    }
}

#[test]
fn proxies_beyond_the_limit_are_not_asked_and_counted() {
    // No program listens on this port.
    let closed = ProxyAt::address(([127, 0, 0, 1], 1).into());
    let state = State::new(Proxies::on_this_machine(Vec::new()), None, SECOND, None);
    let (pages, asked) = block_on(read_some(&state, vec![closed; PROXIES_MAX + 3], "/calls")).expect("a runtime");
    assert!(pages.is_empty());
    assert_eq!((asked.proxies, asked.proxies_omitted, asked.proxies_silent), (PROXIES_MAX, 3, PROXIES_MAX));
}
