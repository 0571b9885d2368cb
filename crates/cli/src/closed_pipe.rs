//! A reader may close the pipe of standard output, as `head` does. The command then ends without an error.

use std::error::Error;
use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether a command failed because the reader of standard output closed the pipe. A pipe to a child process and a
/// socket break with the same error, so this function also asks the kernel about standard output.
pub(crate) fn is_cause(error: &(dyn Error + 'static)) -> bool {
    is_broken_pipe(error) && is_closed(io::stdout())
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let is_own = error.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe);
    is_own || error.source().is_some_and(is_broken_pipe)
}

/// Whether the reader has closed the pipe `output`.
fn is_closed(output: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let is_polled = poll(&mut polled, Some(&Timespec::default())).is_ok();
    is_polled && polled.iter().any(|output| output.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

#[cfg(test)]
#[path = "closed_pipe_tests.rs"]
mod tests;
