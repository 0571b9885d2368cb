use std::time::{Duration, SystemTime};

use super::{ProcessMetrics, stat_field};

#[test]
fn this_process_has_memory_files_threads_and_a_start() {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let process = ProcessMetrics::read(started);
    assert!(process.resident_bytes > Some(100_000));
    assert!(process.virtual_bytes > process.resident_bytes);
    assert!(process.open_fds >= Some(3));
    assert!(process.open_fds <= process.max_fds);
    assert!(process.threads >= Some(1));
    assert!(process.cpu_seconds >= Some(0.0));
    assert_eq!(process.started_since_1970.as_secs(), 1_700_000_000);
}

#[test]
fn a_process_name_with_spaces_and_brackets_does_not_shift_the_fields() {
    let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 140 150 16";
    assert_eq!(stat_field(stat, 14), Some(140));
    assert_eq!(stat_field(stat, 15), Some(150));
    assert_eq!(stat_field(stat, 99), None);
    assert_eq!(stat_field("", 14), None);
}
