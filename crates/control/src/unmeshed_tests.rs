use super::*;

fn pods(count: usize) -> Vec<Unmeshed> {
    (0..count).map(|i| Unmeshed { name: format!("web-{i:03}").into(), uid: format!("uid-{i:03}").into() }).collect()
}

fn shop(count: usize) -> ByNamespace {
    [("shop".into(), pods(count))].into()
}

#[test]
fn each_pod_is_reported_once_and_of_many_only_the_first() {
    let mut reported = Reported::default();
    let due = reported.due(&shop(2));
    assert_eq!(due.iter().map(|(_, pod)| &*pod.name).collect::<Vec<_>>(), ["web-000", "web-001"]);
    reported.pods.extend(due.into_iter().map(|(_, pod)| pod.uid));
    assert!(reported.due(&shop(2)).is_empty());
    assert_eq!(reported.due(&shop(10_000)).len(), EVENTS_PER_NAMESPACE_MAX - 2);
    reported.due(&shop(0));
    assert!(reported.pods.is_empty(), "what is gone is forgotten");
}

#[test]
fn the_log_tells_when_a_namespace_has_more_of_them() {
    let mut reported = Reported::default();
    let line = "Pods of namespace shop that run without the proxy that leno.dev/inject asks for: 2; leno check --proxy names them";
    assert_eq!(reported.rises(&shop(2)), [line]);
    for count in [2, 1] {
        assert!(reported.rises(&shop(count)).is_empty());
    }
    assert_eq!(reported.rises(&shop(2)), [line]);
}

#[test]
fn an_event_is_about_the_pod_and_fits_whatever_its_name() {
    let pod = Unmeshed { name: "n".repeat(253).into(), uid: "0123456789".into() };
    let event = event("shop", &pod, Timestamp::UNIX_EPOCH);
    assert!(event.metadata.name.expect("a name").len() <= 253);
    assert_eq!(event.involved_object.uid.as_deref(), Some("0123456789"));
    assert_eq!((event.reason.as_deref(), event.type_.as_deref()), (Some("WithoutProxy"), Some("Warning")));
}

/// If each Pod were compared with each other Pod, this test would take minutes.
#[test]
fn many_namespaces_are_reported_in_a_short_time() {
    let of = |namespace: usize| {
        let pod = |i: usize| {
            let uid = format!("{namespace}-{i}");
            Unmeshed { name: uid.as_str().into(), uid: uid.into() }
        };
        (format!("ns-{namespace}").into(), (0..EVENTS_PER_NAMESPACE_MAX).map(pod).collect())
    };
    let all: ByNamespace = (0..8_000).map(of).collect();
    let mut reported = Reported::default();
    let due = reported.due(&all);
    reported.pods.extend(due.into_iter().map(|(_, pod)| pod.uid));
    let start = std::time::Instant::now();
    assert!(reported.due(&all).is_empty());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
