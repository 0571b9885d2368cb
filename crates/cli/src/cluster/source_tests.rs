use clap::Parser;
use serde_json::json;

use super::*;
use crate::cluster::connect::tests::with_api_server;

/// The growth between two metrics pages of a proxy.
pub(crate) fn growth(before: &str, now: &str) -> Growth {
    let (before, now) = (Scrape::parse(before), Scrape::parse(now));
    Growth { grown: now.since(&before), now }
}

/// The measurement of a workload `shop/web` with one Pod. The counters of its proxy began at zero; `page` is its
/// metrics page at the end.
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

/// The group of the workload `shop/web`, which commands print as `deploy/web`.
fn group(pods: Vec<Pod>) -> Group {
    Group { namespace: "shop".to_owned(), name: "web".to_owned(), shown: "deploy/web".to_owned(), pods }
}

fn key(name: &str) -> PodKey {
    ("shop".to_owned(), name.to_owned())
}

/// The page of a proxy that has counted this number of calls.
fn reading(at: BootInstant, calls: u64) -> Reading {
    Reading { at, page: Scrape::parse(&format!("request_total {calls}")) }
}

#[test]
fn each_proxy_counts_by_its_own_time_between_its_readings() {
    let pods = vec![pod("web-1", "leno-proxy"), pod("web-2", "leno-proxy")];
    let group = group(pods);
    let start = BootInstant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let before = [(key("web-1"), reading(at(0), 0)), (key("web-2"), reading(at(15), 0))].into();
    // Both proxies count 2 calls per second. The second reading of web-1 is late, because it had to wait until the
    // reading of a silent proxy ended.
    let after = [(key("web-1"), reading(at(40), 80)), (key("web-2"), reading(at(25), 20))].into();
    let measured = Measured::of(&group, &before, &after, Duration::from_secs(10));
    let grown: Vec<f64> = measured.proxies.iter().map(|proxy| proxy.grown.sum("request_total", &[])).collect();
    assert_eq!(grown, [20.0, 20.0]);
    assert_eq!(measured.proxies[0].now.sum("request_total", &[]), 80.0);
}

#[test]
fn a_group_has_the_growth_of_the_proxies_that_answered_twice() {
    let pods = vec![pod("web-1", "leno-proxy"), pod("web-2", "app"), pod("web-3", "leno-proxy")];
    let group = group(pods);
    let (start, window) = (BootInstant::now(), Duration::from_secs(10));
    let before = [(key("web-1"), reading(start, 100)), (key("web-3"), reading(start, 7))].into();
    let after = [(key("web-1"), reading(start + window, 150))].into();
    let measured = Measured::of(&group, &before, &after, window);
    assert_eq!(measured.name, "deploy/web", "the tables have the name to print");
    assert_eq!((measured.pods, measured.meshed_pods, measured.proxies.len()), (Some(3), 2, 1));
    assert_eq!(measured.proxies[0].grown.sum("request_total", &[]), 50.0);
    assert_eq!(measured.proxies[0].now.sum("request_total", &[]), 150.0);
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    source: Source,
}

#[test]
fn a_later_list_may_have_no_pod_of_the_selected_name() {
    let Command { source } = Command::try_parse_from(["leno", "deploy/web", "-n", "shop"]).expect("valid options");
    let reply = |_: &str| (200, json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}));
    let listed = with_api_server(reply, async |cluster| {
        let first =
            source.choice.or_all(Kind::Workloads).expect("one name").groups(&cluster, &source.choice.scope).await;
        assert_eq!(first.expect_err("no Pod").what, "there is no Pod of Deployment web in namespace shop");
        Proxies { cluster: Some(cluster), proxies: Vec::new() }.list_again(&source).await
    });
    assert_eq!(listed, Ok(Vec::new()));
}

#[test]
fn a_suggested_command_selects_the_same_proxies() {
    for (given, suggested) in [
        ("deploy/web -n shop", " deploy/web -n shop"),
        ("statefulsets db", " sts/db"),
        ("pods -A --context test", " pods -A --context test"),
        ("ns/shop", " ns/shop"),
        ("-n shop", " -n shop"),
        ("", ""),
        ("--admin 127.0.0.1:4191", " --admin 127.0.0.1:4191"),
    ] {
        let read = |line: &str| {
            let words = std::iter::once("leno").chain(line.split_whitespace());
            Command::try_parse_from(words).expect("valid options").source.options()
        };
        assert_eq!(read(given), suggested);
        assert_eq!(read(suggested), suggested, "the suggestion is valid");
    }
}
