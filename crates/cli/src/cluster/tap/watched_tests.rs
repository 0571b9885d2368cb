use super::*;
use crate::cluster::source::tests::proxy_of;

fn pods(pods: &[&str]) -> Vec<ProxyAt> {
    pods.iter().map(|pod| proxy_of("web", pod)).collect()
}

fn list(watched: &mut Watched, listed: &[&str]) -> Vec<ProxyAt> {
    watched.list(pods(listed).into_iter())
}

#[test]
fn a_pod_that_replaces_another_is_watched() {
    let mut watched = Watched::default();
    assert_eq!(list(&mut watched, &["web-a", "web-b"]), pods(&["web-a", "web-b"]));
    assert_eq!(list(&mut watched, &["web-a", "web-b"]), pods(&[]));
    assert_eq!(list(&mut watched, &["web-b", "web-c"]), pods(&["web-c"]));
    watched.end(proxy_of("web", "web-a"), false);
    assert_eq!(list(&mut watched, &["web-b", "web-c"]), pods(&[]));
    // A Pod of a StatefulSet has the same name as the Pod before.
    watched.end(proxy_of("web", "web-b"), false);
    assert_eq!(list(&mut watched, &["web-b", "web-c"]), pods(&["web-b"]));
}

#[test]
fn a_proxy_whose_taps_fail_is_watched_again_only_after_a_list_without_it() {
    let mut watched = Watched::default();
    list(&mut watched, &["web-a", "web-b"]);
    for _ in 1..FAILURES_MAX {
        watched.end(proxy_of("web", "web-a"), true);
        assert_eq!((list(&mut watched, &["web-a", "web-b"]), watched.has_given_up()), (pods(&["web-a"]), false));
    }
    watched.end(proxy_of("web", "web-a"), true);
    assert_eq!((list(&mut watched, &["web-a", "web-b"]), watched.has_given_up()), (vec![], true));
    assert_eq!((list(&mut watched, &["web-b"]), watched.has_given_up()), (vec![], false));
    assert_eq!(list(&mut watched, &["web-a", "web-b"]), pods(&["web-a"]));
}

#[test]
fn a_tap_that_lasts_makes_up_for_earlier_failures() {
    let mut watched = Watched::default();
    for is_failure in [true, true, false, true, true] {
        assert_eq!(list(&mut watched, &["web-a"]), pods(&["web-a"]));
        watched.end(proxy_of("web", "web-a"), is_failure);
    }
    assert_eq!((list(&mut watched, &["web-a"]), watched.has_given_up()), (pods(&["web-a"]), false));
}

#[test]
fn at_most_so_many_proxies_are_watched_and_the_others_follow_when_taps_end() {
    let mut watched = Watched::default();
    let names: Vec<String> = (0..PROXIES_MAX + 2).map(|number| format!("web-{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(list(&mut watched, &names), pods(&names[..PROXIES_MAX]));
    assert_eq!(watched.omitted(), 2);
    watched.end(proxy_of("web", names[0]), false);
    assert_eq!(list(&mut watched, &names[1..]), pods(&names[PROXIES_MAX..=PROXIES_MAX]));
    assert_eq!(watched.omitted(), 1);
}
