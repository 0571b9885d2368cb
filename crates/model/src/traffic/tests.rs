use std::time::Duration;

use super::{CallPolicy, Mode, Retry, Setting, TimeLimit};

fn limit(ms: u64, mode: Mode, set_by: &str) -> Option<Setting<TimeLimit>> {
    Some(Setting { value: TimeLimit { after: Duration::from_millis(ms) }, mode, set_by: set_by.into() })
}

fn retry(attempts: u8, set_by: &str) -> Option<Setting<Retry>> {
    Some(Setting::enforced(Retry { attempts, ..Retry::default() }, &set_by.into()))
}

#[test]
fn each_part_comes_from_the_most_specific_object_that_sets_it() {
    let rule = CallPolicy { request_timeout: limit(1, Mode::Enforce, "rule"), ..CallPolicy::default() };
    let route = CallPolicy {
        request_timeout: limit(2, Mode::Enforce, "route"),
        stream_idle_timeout: limit(3, Mode::Audit, "route"),
        ..CallPolicy::default()
    };
    let service = CallPolicy {
        stream_idle_timeout: limit(4, Mode::Enforce, "service"),
        retry: retry(2, "service"),
        ..CallPolicy::default()
    };
    let joined = rule.or(&route).or(&service).without_off();
    let expected = CallPolicy {
        request_timeout: limit(1, Mode::Enforce, "rule"),
        stream_idle_timeout: limit(3, Mode::Audit, "route"),
        retry: retry(2, "service"),
        ..CallPolicy::default()
    };
    assert_eq!(joined, expected);
}

#[test]
fn a_part_that_is_off_hides_the_same_part_of_less_specific_objects() {
    let rule = CallPolicy { request_timeout: limit(0, Mode::Off, "rule"), ..CallPolicy::default() };
    let service = CallPolicy { request_timeout: limit(4, Mode::Enforce, "service"), ..CallPolicy::default() };
    assert!(rule.or(&service).without_off().is_empty());
}

#[test]
fn the_size_counts_names_and_lists() {
    assert_eq!(CallPolicy::default().size_bytes(), 0);
    let named = CallPolicy { request_timeout: limit(1, Mode::Enforce, "1234567890"), ..CallPolicy::default() };
    assert_eq!(named.size_bytes(), 10);
    let codes = Retry { http_codes: [500, 503].into(), ..Retry::default() };
    let listed = CallPolicy { retry: Some(Setting::enforced(codes, &"12345".into())), ..CallPolicy::default() };
    assert_eq!(listed.size_bytes(), 5 + 2 * 2);
}

#[test]
fn a_part_is_shown_with_its_mode_and_its_object() {
    let policy =
        CallPolicy { request_timeout: limit(2_000, Mode::Audit, "TrafficPolicy a/b"), ..CallPolicy::default() };
    let shown = serde_json::to_value(&policy).expect("JSON");
    let limit = serde_json::json!({"after_ms": 2_000, "mode": "Audit", "set_by": "TrafficPolicy a/b"});
    assert_eq!(shown, serde_json::json!({"request_timeout": limit}));
}
