use serde_json::json;

use super::*;

fn name(pod: &str, container: &str) -> ContainerName {
    ContainerName { namespace: "leno-lab-leno".to_owned(), pod: pod.to_owned(), container: container.to_owned() }
}

/// A reading of two proxies.
fn usage(cpu_ns: [u64; 2], memory: [u64; 2]) -> Usage {
    usage_at(cpu_ns, memory, "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z")
}

/// A reading, at the time `at`, of two proxies that started at the time `started`.
fn usage_at(cpu_ns: [u64; 2], memory: [u64; 2], started: &str, at: &str) -> Usage {
    let pod = |index: usize| {
        json!({
            "podRef": {"name": format!("backend-{index}"), "namespace": "leno-lab-leno", "uid": "u"},
            "containers": [{
                "name": "leno-proxy",
                "startTime": started,
                "cpu": {"time": at, "usageNanoCores": 1, "usageCoreNanoSeconds": cpu_ns[index]},
                "memory": {"time": at, "workingSetBytes": memory[index], "rssBytes": 1},
            }],
        })
    };
    let summary = serde_json::from_value(json!({"node": {"nodeName": "n"}, "pods": [pod(0), pod(1)]}));
    let mut usage = Usage::default();
    usage.add(summary.expect("a summary"));
    usage
}

fn proxies() -> [ContainerName; 2] {
    [name("backend-0", "leno-proxy"), name("backend-1", "leno-proxy")]
}

/// A later reading of the same containers.
fn ten_seconds_later(cpu_ns: [u64; 2]) -> Usage {
    usage_at(cpu_ns, [5, 7], "2026-01-02T03:04:05Z", "2026-01-02T03:05:15Z")
}

#[test]
fn cpus_are_the_sum_of_what_each_container_used_between_two_readings() {
    let (before, after) = (usage([1_000, 2_000], [5, 7]), ten_seconds_later([2_000_001_000, 3_000_002_000]));
    let cpus = after.cpus_since(&before, &proxies()).expect("CPUs");
    assert!((cpus - 0.5).abs() < 1e-9, "{cpus}");
    assert_eq!(after.restarted(&before, &proxies()), None);
}

#[test]
fn cpus_are_unknown_if_a_container_restarted_or_is_missing() {
    let before = usage([1_000, 2_000], [5, 7]);
    assert_eq!(ten_seconds_later([4_000, 0]).cpus_since(&before, &proxies()), None);
    assert_eq!(ten_seconds_later([4_000, 2_500]).cpus_since(&before, &[name("other", "leno-proxy")]), None);
    // The new container has used more CPU time than the old container had.
    let replaced = usage_at([9_000, 9_000], [5, 7], "2026-01-02T03:05:00Z", "2026-01-02T03:05:15Z");
    assert_eq!(replaced.cpus_since(&before, &proxies()), None);
    assert_eq!(replaced.restarted(&before, &proxies()), Some(&proxies()[0]));
}

#[test]
fn memory_is_the_largest_of_all_readings() {
    let (during, mut after) = (usage([0, 0], [50, 6]), usage([0, 0], [5, 7]));
    after.keep_peaks(&during);
    assert_eq!(after.memory_bytes(&proxies()), 57);
    assert_eq!(after.largest_bytes(&proxies()), Some(50));
    assert_eq!(after.largest_bytes(&[]), None);
}

#[test]
fn a_container_without_measurements_counts_nothing() {
    let summary = json!({"pods": [{"podRef": {"name": "p", "namespace": "n"}, "containers": [{"name": "c"}]}, {"podRef":
        {"name": "q", "namespace": "n"}}]});
    let mut usage = Usage::default();
    usage.add(serde_json::from_value(summary).expect("a summary"));
    let container = ContainerName { namespace: "n".to_owned(), pod: "p".to_owned(), container: "c".to_owned() };
    assert_eq!(usage.memory_bytes(&[container]), 0);
}

#[test]
fn idle_cpu_time_outside_of_the_load_does_not_count() {
    const START: &str = "2026-01-02T03:04:05Z";
    let second = 1_000_000_000;
    // For 10 s without a load, each container uses 1 % of a CPU. In the next 30 s, it uses 5 s of CPU time. The load
    // runs for 20 of these 30 s.
    let first = usage_at([0, 0], [5, 7], START, "2026-01-02T03:05:00Z");
    let before = usage_at([second / 10, second / 10], [5, 7], START, "2026-01-02T03:05:10Z");
    let after = usage_at([second / 10 + 5 * second; 2], [5, 7], START, "2026-01-02T03:05:40Z");
    let idle = before.idle_since(&first);
    assert!(idle.of(&proxies()).is_some_and(|cpus| (cpus - 0.02).abs() < 1e-9), "{idle:?}");
    let cpu = after.cpu_of_load(&before, &proxies(), Duration::from_secs(20), &idle).expect("CPU time");
    assert_eq!(cpu, Duration::from_millis(2 * 4_900));
    // Without an idle measurement, the CPU time outside of the load is unknown and cannot be subtracted.
    let unknown = IdleCpus::default();
    assert_eq!(after.cpu_of_load(&before, &proxies(), Duration::from_secs(20), &unknown), None);
    assert_eq!(unknown.of(&proxies()), None);
}
