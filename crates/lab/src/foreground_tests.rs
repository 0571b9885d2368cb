use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tokio::time::sleep;

use super::*;

/// Time for the kernel to deliver a signal to a thread of this process. The kernel chooses the thread, so the call that
/// sends the signal may return before the delivery.
const DELIVERY: Duration = Duration::from_millis(500);

/// Sleeps briefly, so that [`Foreground::wait`] has time to notice an earlier signal.
async fn a_moment() -> Result<()> {
    sleep(Duration::from_millis(100)).await;
    Ok(())
}

#[test]
fn a_signal_outside_of_a_wait_ends_the_next_wait_unless_it_is_forgotten() {
    let mut foreground = Foreground::new().expect("signal handlers");
    for is_forgotten in [false, true] {
        // Send SIGTERM, not SIGHUP: under nohup, this process ignores SIGHUP.
        kill_process(getpid(), Signal::TERM).expect("this process");
        thread::sleep(DELIVERY);
        if is_forgotten {
            foreground.forget_signals();
        }
        assert_eq!(foreground.wait(a_moment()).is_ok(), is_forgotten);
    }
}
