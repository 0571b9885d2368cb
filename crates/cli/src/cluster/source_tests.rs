use serde_json::json;

use super::*;

/// The growth between two metrics pages of a proxy.
pub(crate) fn growth(before: &str, now: &str) -> Growth {
    let (before, now) = (Scrape::parse(before), Scrape::parse(now));
    Growth { grown: now.since(&before), now }
}

/// A workload `shop/web` with one Pod. The counters of its proxy were zero at first; `page` is the page of its metrics
/// now.
pub(crate) fn measured(page: &str) -> Measured {
    Measured {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        pods: Some(1),
        meshed_pods: 1,
        proxies: vec![growth("", page)],
    }
}

/// A proxy of the workload `shop/web`.
pub(crate) fn proxy() -> ProxyAt {
    proxy_of("web", "web-1")
}

/// The proxy of a Pod of a workload in the namespace `shop`.
pub(crate) fn proxy_of(workload: &str, pod: &str) -> ProxyAt {
    ProxyAt { namespace: "shop".to_owned(), name: workload.to_owned(), place: Place::Pod(pod.to_owned(), 4191) }
}

fn pod(name: &str, container: &str) -> Pod {
    let metadata = json!({"namespace": "shop", "name": name});
    let spec = json!({"containers": [{"name": container, "image": "leno-proxy:1"}]});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a Pod")
}

#[test]
fn a_group_has_the_growth_of_the_proxies_that_answered_twice() {
    let pods = vec![pod("web-1", "leno-proxy"), pod("web-2", "app"), pod("web-3", "leno-proxy")];
    let group = Group { namespace: "shop".to_owned(), name: "web".to_owned(), pods };
    let key = |name: &str| ("shop".to_owned(), name.to_owned());
    let page = |calls: u64| Scrape::parse(&format!("request_total {calls}"));
    let before = [(key("web-1"), page(100)), (key("web-3"), page(7))].into();
    let after = [(key("web-1"), page(150))].into();
    let measured = Measured::of(&group, &before, &after);
    assert_eq!((measured.pods, measured.meshed_pods, measured.proxies.len()), (Some(3), 2, 1));
    assert_eq!(measured.proxies[0].grown.sum("request_total", &[]), 50.0);
    assert_eq!(measured.proxies[0].now.sum("request_total", &[]), 150.0);
}
