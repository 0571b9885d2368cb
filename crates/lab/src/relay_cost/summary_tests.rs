use super::*;

fn sample(target: TargetKind, round: u32, cpu_us_per_call: f64) -> Sample {
    Sample {
        target,
        round,
        calls: 1000,
        connections: 1,
        concurrency: 200,
        response_bytes: 70,
        calls_per_second: 100_000.0,
        cpu_us_per_call: Some(cpu_us_per_call),
        cpu_busy: Some(0.5),
        memory: Some(Memory { resident_kib: 2048, peak_kib: 4096 }),
    }
}

#[test]
fn the_median_of_an_even_number_lies_between_the_middle_two() {
    assert_eq!(median([4.0, 1.0, 2.0, 100.0].into_iter()), Some(3.0));
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
    assert_eq!(median(std::iter::empty()), None);
}

#[test]
fn the_ratio_compares_rounds_of_the_same_number() {
    let samples = [
        sample(TargetKind::Leno, 1, 4.0),
        sample(TargetKind::Haproxy, 1, 8.0),
        sample(TargetKind::Leno, 2, 9.0),
        sample(TargetKind::Haproxy, 2, 18.0),
    ];
    let table = table(&samples);
    let leno = table.lines().find(|line| line.starts_with("leno"));
    let columns: Vec<&str> = leno.unwrap_or_default().split_whitespace().collect();
    assert_eq!(columns, ["leno", "100000", "6.50", "[4.00", "-", "9.00]", "0.50", "50", "%", "2.1", "(4.2)"]);
}

#[test]
fn a_target_that_was_skipped_has_no_row_and_no_ratio_is_made_up() {
    let table = table(&[sample(TargetKind::Leno, 1, 4.0)]);
    assert!(!table.lines().any(|line| line.starts_with("haproxy")));
    let leno = table.lines().last().unwrap_or_default();
    assert_eq!(leno.split_whitespace().nth(6), Some("-"));
}
