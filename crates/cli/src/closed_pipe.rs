//! Lets a command end without an error if the reader of its standard output closes the pipe, as `head` does.

use std::error::Error;
use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether `error` arose because the reader of standard output closed the pipe. A socket, or a pipe to a child process,
/// fails with the same error, so this function also asks the kernel whether standard output is closed.
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
