use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn used(control: Duration, lab: Duration, others: Duration) -> Used {
    Used { time: 10 * SECOND, control, lab, others, machine_cpus: 2 }
}

#[test]
fn a_lab_that_works_for_as_long_as_changes_are_on_their_way_is_the_ceiling() {
    let judged = Judged { busy: SECOND, ..Judged::default() };
    assert!(is_at_ceiling(&judged, &used(SECOND, SECOND.mul_f64(0.9), SECOND)));
    assert!(!is_at_ceiling(&judged, &used(SECOND, SECOND.mul_f64(0.5), SECOND)));
}

#[test]
fn a_machine_without_idle_cpus_is_the_ceiling() {
    let judged = Judged { busy: 10 * SECOND, ..Judged::default() };
    assert!(is_at_ceiling(&judged, &used(5 * SECOND, SECOND, 11 * SECOND)));
    assert!(!is_at_ceiling(&judged, &used(5 * SECOND, SECOND, 5 * SECOND)));
}

#[test]
fn a_record_says_what_it_is() {
    let mesh = Plan { services: 3, endpoints: 10, proxies: 3, subscriptions: 2 };
    let record = Record::ControlMemory { mesh, memory: Memory { resident_kib: 1, peak_kib: 2 } };
    let json = serde_json::to_value(&record).expect("it can be written");
    assert_eq!(json["what"], "control-memory");
    assert_eq!(json["memory"]["peak_kib"], 2);
    assert_eq!(json["mesh"]["services"], 3);
}
