use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tokio::time::sleep;

use super::*;

/// Time for the kernel to interrupt a thread of this process. The kernel chooses the thread, and the call that sends the
/// signal may return earlier.
const DELIVERY: Duration = Duration::from_millis(500);

/// A wait that an earlier signal would end.
async fn a_moment() -> Result<()> {
    sleep(Duration::from_millis(100)).await;
    Ok(())
}

#[test]
fn a_signal_outside_of_a_wait_ends_the_next_wait_unless_it_is_forgotten() {
    let mut foreground = Foreground::new().expect("signal handlers");
    for is_forgotten in [false, true] {
        kill_process(getpid(), Signal::HUP).expect("this process");
        thread::sleep(DELIVERY);
        if is_forgotten {
            foreground.forget_signals();
        }
        assert_eq!(foreground.wait(a_moment()).is_ok(), is_forgotten);
    }
}
