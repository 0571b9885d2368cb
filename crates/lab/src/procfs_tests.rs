use std::time::Instant;

use super::*;

#[test]
fn cpu_ticks_are_read_past_a_name_with_spaces_and_brackets() {
    let stat = "42 (a ) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 17 25 3 4 20 0 1 0 9";
    assert_eq!(parse_cpu_ticks(stat), Some(42));
}

#[test]
fn a_cut_off_stat_line_is_not_read_as_zero() {
    assert_eq!(parse_cpu_ticks("42 (a) S 1 2"), None);
}

#[test]
fn memory_is_read_from_status() {
    let status = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    8000 kB\n";
    let memory = parse_memory(status);
    assert_eq!(memory, Some(Memory { resident_kib: 8000, peak_kib: 9000 }));
    assert_eq!(parse_memory("VmRSS:\t8000 kB\n"), None);
}

#[test]
fn a_peak_that_is_forgotten_is_over() {
    let pid = std::process::id();
    let large = std::hint::black_box(vec![1_u8; 64 << 20]);
    drop(large);
    let before = memory(pid).expect("this process exists");
    assert!(before.peak_kib >= 64 << 10, "{before:?}");
    forget_peak(pid);
    let after = memory(pid).expect("this process exists");
    assert!(after.peak_kib < before.peak_kib, "{before:?}, then {after:?}");
}

#[test]
fn our_own_cpu_time_grows_while_we_spin() {
    let pid = std::process::id();
    let before = cpu_time(pid).expect("this process exists");
    let start = Instant::now();
    while cpu_time(pid).expect("this process exists") - before < Duration::from_millis(20) {
        assert!(start.elapsed() < Duration::from_secs(10), "it does not grow");
        std::hint::spin_loop();
    }
}

#[test]
fn the_machines_busy_time_leaves_out_idling_and_interrupts() {
    let stat = "cpu  1000 200 30 9999 9999 9999 9999 4 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
    assert_eq!(parse_machine_ticks(stat), Some(1234));
    assert_eq!(parse_machine_ticks("cpu  1000 200 30 9999\n"), None);
}

#[test]
fn the_machine_is_at_least_as_busy_as_we_are() {
    let pid = std::process::id();
    let both_while_we_spin = |_| {
        let before = (machine_cpu_time().expect("/proc is there"), cpu_time(pid).expect("this process exists"));
        let start = Instant::now();
        while start.elapsed().as_millis() < 300 {
            std::hint::spin_loop();
        }
        let ours = cpu_time(pid).expect("this process exists") - before.1;
        (machine_cpu_time().expect("/proc is there") - before.0, ours)
    };
    // The kernel counts the machine's time in ticks, and misses ticks while another virtual machine has the processor.
    // Therefore the test passes if one of five tries succeeds.
    let tries: Vec<_> = (0..5).map(both_while_we_spin).collect();
    assert!(tries.iter().any(|(all, ours)| *all + Duration::from_millis(100) >= *ours), "{tries:?}");
}
