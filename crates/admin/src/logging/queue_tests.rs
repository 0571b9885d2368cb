use std::sync::mpsc;

use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// An output that blocks until it is released.
struct Stuck {
    release: mpsc::Receiver<()>,
    written: mpsc::Sender<Vec<u8>>,
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.release.recv();
        let _ = self.written.send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_stands_still_holds_up_no_one_who_logs_and_takes_bounded_memory() {
    let (go, release) = mpsc::channel();
    let (written, writes) = mpsc::channel();
    let queue = Queue::start(Stuck { release, written }, || {}).expect("a thread");
    let line = [b'x'; 1_024];
    for _ in 0..4 * QUEUE_MAX_BYTES / line.len() {
        queue.make_writer().write_all(&line).expect("a queue takes every line");
    }
    {
        let state = queue.lock();
        assert!(state.text.len() <= QUEUE_MAX_BYTES);
        assert!(state.dropped > 0, "lines that found no room are counted");
    }
    drop(go);
    queue.flush();
    let bytes: usize = writes.try_iter().map(|bytes| bytes.len()).sum();
    assert!(bytes >= QUEUE_MAX_BYTES, "what was queued is written once the output takes it: {bytes}");
}

#[test]
fn flush_returns_when_everything_is_written() {
    let (written, writes) = mpsc::channel();
    let (go, release) = mpsc::channel();
    drop(go);
    let queue = Queue::start(Stuck { release, written }, || {}).expect("a thread");
    queue.make_writer().write_all(b"last words\n").expect("a queue takes every line");
    queue.flush();
    assert_eq!(writes.try_recv().expect("it was written before flush returned"), b"last words\n");
}
