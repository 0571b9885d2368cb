//! The start signal: a load connects, and sends nothing until its coordinator gives the signal. So loads in several
//! processes begin at the same time.

use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// The line on standard input that starts a load.
pub(crate) const START: &str = "start\n";

/// The gate at which a connected load waits for the start signal.
pub(super) struct Gate {
    connected: oneshot::Sender<()>,
    start: oneshot::Receiver<()>,
}

/// Returns a load's gate, and a receiver and a sender for the load's coordinator.
///
/// The receiver gets a message when the load waits at the gate. The sender gives the signal that opens the gate.
pub(super) fn gate() -> (Gate, oneshot::Receiver<()>, oneshot::Sender<()>) {
    let ((connected, waits), (signal, start)) = (oneshot::channel(), oneshot::channel());
    (Gate { connected, start }, waits, signal)
}

impl Gate {
    /// Reports that all clients have connected, and waits for the signal.
    ///
    /// # Errors
    /// If the coordinator has dropped the sender, so that no signal will arrive.
    pub(super) async fn wait(self) -> Result<()> {
        // Ignore the error: a coordinator that has dropped the receiver may still give the signal.
        let _ = self.connected.send(());
        self.start.await.map_err(|_| Error::Message {
            what: "waiting for the start signal".to_owned(),
            why: "the load's coordinator has gone".to_owned(),
        })
    }
}
