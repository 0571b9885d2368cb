//! Ctrl-C, SIGTERM and SIGHUP during a publication.

use std::thread;

use tokio::runtime::Builder;

use crate::error::{Result, io};
use crate::signals::EndSignals;

/// Calls `then`, on a separate thread, when the first of the [`EndSignals`] arrives. Once this function has returned,
/// these signals no longer end the process.
///
/// # Errors
/// If the system rejects signal handlers.
pub(super) fn on_interruption(then: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(io("starting the lab"))?;
    let mut signals = EndSignals::listen(&runtime).map_err(io("listening for signals"))?;
    thread::spawn(move || {
        runtime.block_on(signals.recv());
        then();
    });
    Ok(())
}
