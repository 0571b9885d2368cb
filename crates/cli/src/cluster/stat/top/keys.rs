//! Reads the keyboard in a separate thread, because crossterm's reads block.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Interval at which the thread checks whether it should end.
const CHECK: Duration = Duration::from_millis(50);
/// Maximum time to wait until the thread ends. It may never end, because crossterm's read does not return if the
/// terminal no longer exists.
const END_MAX: Duration = Duration::from_millis(200);
const END_CHECK: Duration = Duration::from_millis(5);

/// Receives the events of the terminal: pressed keys, and changes of its size. Dropping this value stops the thread, so
/// that the shell receives all later keys.
pub(super) struct Keys {
    events: UnboundedReceiver<io::Result<Event>>,
    thread: JoinHandle<()>,
}

impl Keys {
    pub(super) fn listen() -> Self {
        let (sender, events) = unbounded_channel();
        Self { events, thread: thread::spawn(move || listen(&sender)) }
    }

    /// # Errors
    /// If the terminal cannot be read.
    pub(super) async fn next(&mut self) -> io::Result<Event> {
        let event = self.events.recv().await.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
        event.map_err(|error| io::Error::new(error.kind(), format!("reading the keyboard failed: {error}")))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.events.close();
        let mut waited = Duration::ZERO;
        while !self.thread.is_finished() && waited < END_MAX {
            thread::sleep(END_CHECK);
            waited += END_CHECK;
        }
    }
}

fn listen(events: &UnboundedSender<io::Result<Event>>) {
    while !events.is_closed() {
        let event = match event::poll(CHECK) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        let has_failed = event.is_err();
        if events.send(event).is_err() || has_failed {
            return;
        }
    }
}
