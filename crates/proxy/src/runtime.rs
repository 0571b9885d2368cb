//! The thread that runs everything of a program except its workers.

use std::io;

use leno_admin::logging;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// Runs `program` on this thread until it ends.
///
/// # Errors
///
/// The error of `program`, or the kernel's error if the runtime cannot be created.
pub(crate) fn run<E: From<io::Error>>(program: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let ended = LocalSet::new().block_on(&runtime, program);
    logging::flush();
    // Do not wait for a lookup of a name, which may take long if DNS does not answer.
    runtime.shutdown_background();
    ended
}
