//! A thread on which the lab serves the proxies of a target, for example as their control plane.

use std::future::Future;
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use tokio::runtime;
use tokio::sync::oneshot;

use crate::error::{Result, io};

/// A running service. Dropping it ends its thread.
pub(super) struct ServiceThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServiceThread {
    /// Starts a thread with the name `name`, which runs `serve` with `listener`. `what` describes the action in error
    /// messages.
    ///
    /// # Errors
    /// If the thread does not start.
    pub(super) fn start<Serving: Future<Output = ()>>(
        name: &str,
        what: &'static str,
        listener: TcpListener,
        serve: impl FnOnce(tokio::net::TcpListener) -> Serving + Send + 'static,
    ) -> Result<Self> {
        listener.set_nonblocking(true).map_err(io(what))?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(io(what))?;
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                tokio::select! {
                    () = serve(listener) => {}
                    // Dropping the `ServiceThread` drops the sender, which completes `stopped`.
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run).map_err(io(what))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ServiceThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Ignore a panic of the thread, because it has already been printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
