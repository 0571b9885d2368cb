use std::fs;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_relay::access_log::{AccessLog, Format, Queries};
use leno_relay::metrics::WorkerMetrics;

use super::{Destination, Offer, Output, Pending, Writer};
use crate::access_log::Outlet;
use crate::access_log::fixtures::connection;

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn all_lines_of_all_workers_are_in_the_file_in_the_end() {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("access.log");
    fs::write(&path, "before\n").expect("it can be written");

    let writer = Writer::start(&Destination::File(path.clone())).expect("it starts");
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let outlet = writer.outlet();
            let mut log = AccessLog::on(Format::Json, Queries::Drop, WorkerMetrics::new());
            std::thread::spawn(move || {
                for _ in 0..500 {
                    log.write(&connection());
                    outlet.hand_over(&mut log, Instant::now());
                }
                // Hands over the lines for which the lock was not free earlier.
                outlet.finish(&mut log);
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("it ends well");
    }
    writer.finish(PATIENCE);

    let text = fs::read_to_string(&path).expect("it is text");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("before"));
    let written: Vec<_> = lines.collect();
    assert_eq!(written.len(), 2_000);
    assert!(written.iter().all(|line| line.starts_with('{') && line.ends_with('}')));
}

#[test]
fn lines_are_written_while_the_proxy_runs() {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("access.log");
    let writer = Writer::start(&Destination::File(path.clone())).expect("it starts");
    let mut log = AccessLog::on(Format::Apache, Queries::Drop, WorkerMetrics::new());
    log.write(&connection());
    writer.outlet().hand_over(&mut log, Instant::now());
    let began = Instant::now();
    while fs::read(&path).expect("it is there").is_empty() {
        assert!(began.elapsed() < PATIENCE, "nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error() {
    let nowhere = Destination::File("/proc/no/such/directory/access.log".into());
    assert!(Writer::start(&nowhere).is_err());
}

#[test]
fn a_worker_never_waits_for_the_lock() {
    let pending = Pending::default();
    let held = pending.lock();
    let mut text = b"line\n".to_vec();
    assert_eq!(pending.offer(&mut text), Offer::Busy);
    assert_eq!(text, b"line\n");
    drop(held);
    assert_eq!(pending.offer(&mut text), Offer::Taken);
    assert!(text.is_empty());
}

#[test]
fn nobody_waits_for_a_writer_that_is_stuck() {
    // Without a thread, this writer never ends.
    let writer = Writer(Arc::default());
    let began = Instant::now();
    writer.finish(Duration::from_millis(10));
    assert!(began.elapsed() < PATIENCE);
}

/// A disk with room for some bytes. When it is full, the next write fails. Then it has room again.
struct Disk {
    taken: Vec<u8>,
    room: usize,
    /// Gets the last line of the log when a write fails.
    pending: Arc<Pending>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            self.room = usize::MAX;
            self.pending.offer(&mut b"{\"d\":4}\n".to_vec());
            self.pending.lock().closed = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let count = bytes.len().min(self.room);
        self.room -= count;
        self.taken.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_lost_to_a_write_error_are_counted_and_damage_no_other_line() {
    let pending = Arc::new(Pending::default());
    let mut disk = Disk { taken: Vec::new(), room: 10, pending: pending.clone() };
    assert_eq!(pending.offer(&mut b"{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n".to_vec()), Offer::Taken);
    pending.write_all_to(&mut disk);
    assert_eq!(String::from_utf8_lossy(&disk.taken), "{\"a\":1}\n{\"\n{\"d\":4}\n");

    let metrics = WorkerMetrics::new();
    let mut log = AccessLog::on(Format::Json, Queries::Drop, metrics.clone());
    let outlet = Outlet::to(pending);
    for _ in 0..2 {
        outlet.hand_over(&mut log, Instant::now());
        assert_eq!(metrics.access_log_dropped_total.get(), 2, "each lost line counts once");
    }
}

#[test]
fn a_line_stays_cut_until_its_end_is_written() {
    let pending = Arc::new(Pending::default());
    let mut output = Output { inner: Disk { taken: Vec::new(), room: 3, pending }, is_cut: false };
    assert_eq!(output.write_lines(b"line 1\nline 2\n").expect_err("the disk is full").lines, 2);
    output.inner.room = 0;
    assert_eq!(output.write_lines(b"line 3\n").expect_err("the disk is full again").lines, 1);
    for line in [&b"line 4\n"[..], b"line 5\n"] {
        output.write_lines(line).expect("the disk has room");
    }
    assert_eq!(String::from_utf8_lossy(&output.inner.taken), "lin\nline 4\nline 5\n");
}
