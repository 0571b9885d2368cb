use super::*;
use crate::load::Latency;
use crate::procfs::Memory;

const FULL: Plan = Plan { subscriptions: 10, ..GOAL };

fn memory(mb: u64) -> Memory {
    let kib = |mb: u64| mb * 1_000_000 / 1024;
    Memory { resident_kib: kib(mb), peak_kib: kib(mb + 10) }
}

fn changes(load: Load, p99_ms: f64) -> Changes {
    let latency = Latency { calls: 10, p99_ms, ..Latency::default() };
    Changes {
        mesh: FULL,
        load,
        changes: 3_000,
        took_s: 60.0,
        late: 0,
        deliveries: 30_000,
        coalesced: 5,
        lost: 0,
        since_sent: latency,
        since_acknowledged: latency,
        control_cpus: 0.5,
        control_cpu_ms_per_change: 10.0,
        lab_cpus: 0.2,
        lab_cpu_ms_per_change: 4.0,
        other_cpus: 0.6,
        at_ceiling: false,
        memory: memory(90),
    }
}

fn verdict_of(record: &Record) -> Verdict {
    finding(record).expect("there is a goal for it").verdict
}

#[test]
fn memory_is_held_against_the_goal_of_its_mesh() {
    let small = |mb| verdict_of(&Record::ControlMemory { mesh: FULL.small(), memory: memory(mb) });
    assert_eq!([small(25), small(26)], [Verdict::Reached, Verdict::Missed]);
    let large = |mb| verdict_of(&Record::ControlMemory { mesh: FULL, memory: memory(mb) });
    assert_eq!([large(100), large(101)], [Verdict::Reached, Verdict::Missed]);
}

#[test]
fn a_mesh_smaller_than_the_goals_can_only_miss() {
    let mesh = Plan { services: 20, proxies: 20, ..FULL };
    let of = |mb| verdict_of(&Record::ControlMemory { mesh, memory: memory(mb) });
    assert_eq!([of(10), of(101)], [Verdict::CannotTell, Verdict::Missed]);
}

#[test]
fn a_slow_change_is_missed_unless_the_lab_was_at_its_ceiling() {
    let of = |changes| verdict_of(&Record::Changes(Box::new(changes)));
    assert_eq!(of(changes(Load::Single, 99.0)), Verdict::Reached);
    assert_eq!(of(changes(Load::Single, 101.0)), Verdict::Missed);
    assert_eq!(of(Changes { at_ceiling: true, ..changes(Load::Single, 101.0) }), Verdict::CannotTell);
}

#[test]
fn a_rate_is_sustained_when_it_was_reached_and_nothing_was_lost() {
    let of = |changes| verdict_of(&Record::Changes(Box::new(changes)));
    let steady = || changes(Load::Steady { per_s: 50 }, 50.0);
    assert_eq!(of(steady()), Verdict::Reached);
    assert_eq!(of(Changes { lost: 1, ..steady() }), Verdict::Missed);
    assert_eq!(of(Changes { took_s: 70.0, ..steady() }), Verdict::Missed);
    let slower = changes(Load::Steady { per_s: 40 }, 50.0);
    assert_eq!(of(slower), Verdict::CannotTell, "fewer changes than the goal has prove nothing");
}

#[test]
fn proxies_are_compared_with_each_other() {
    let of = |mesh, kib| Record::ProxyMemory { mesh, memory: Memory { resident_kib: kib, peak_kib: kib } };
    let compared = |more| proxies_compared(&[of(FULL.small(), 7000), of(FULL, more)]).expect("there are two").verdict;
    // 976 KiB are 0.9994 MB, and 977 KiB are 1.0004 MB.
    assert_eq!([compared(7976), compared(7977)], [Verdict::Reached, Verdict::Missed]);
    assert!(proxies_compared(&[of(FULL, 7000)]).is_none(), "one alone says nothing");
}

#[test]
fn the_summary_has_goals_with_verdicts_and_says_when_the_lab_was_the_ceiling() {
    let at_ceiling = Changes { at_ceiling: true, ..changes(Load::Single, 150.0) };
    let text = text(&[Record::ControlMemory { mesh: FULL, memory: memory(80) }, Record::Changes(Box::new(at_ceiling))]);
    assert!(text.contains("| leno-control with 1000 Services, 10000 endpoints, 1000 proxies: at most 100 MB | 80.0 MB (90.0 at most) | reached |"), "{text}");
    assert!(text.contains("cannot tell") && text.contains("near its ceiling"), "{text}");
}
