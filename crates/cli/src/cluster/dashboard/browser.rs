//! Opens the user's browser.

use std::io;
use std::process::{Command, Stdio};

/// Programs that open a URL in the user's browser.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Starts the first of [`OPENERS`] that exists.
///
/// # Errors
/// If no such program exists.
pub(super) fn open(url: &str) -> io::Result<()> {
    let mut last = io::ErrorKind::NotFound.into();
    for opener in OPENERS {
        let mut command = Command::new(opener);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                // The opener may run as long as the browser. Wait for its end on a separate thread, so that no zombie
                // process remains.
                std::thread::Builder::new().spawn(move || child.wait())?;
                return Ok(());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
