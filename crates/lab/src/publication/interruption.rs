//! Ctrl-C and SIGTERM during a publication.

use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Result, io};

/// Calls `then`, on a thread of its own, when the first SIGINT or SIGTERM arrives. The signal no longer ends the
/// process.
///
/// # Errors
/// If the system rejects signal handlers.
pub(super) fn on_interruption(then: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(io("starting the lab"))?;
    let listen = |kind| {
        let _context = runtime.enter();
        signal(kind).map_err(io("listening for signals"))
    };
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        then();
    });
    Ok(())
}
