//! Leno's data plane: takes gRPC connections and sends each call to the best endpoint.
//!
//! [`worker`] relays calls and is where time matters; `control` does everything else, on one other thread.

pub mod access_log;
mod args;
mod control;
mod failure;
pub mod limits;
pub mod metrics;
pub mod worker;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use args::{Args, Exit};

/// Runs the proxy as its command line says; the first item is the program's name.
///
/// The exit code is 0 after an orderly end, 1 after any other, and 2 for a wrong command line; what is not in
/// order is one line on stderr.
pub fn main_with_args(args: impl Iterator<Item = OsString>) -> ExitCode {
    match Args::read(args) {
        Ok((args, limits)) => match control::run(args, limits) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error.to_string()),
        },
        Err(Exit::Usage(line)) => fail(2, &line),
        Err(Exit::Answer(text)) => {
            // Whoever asked may have stopped reading.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
    }
}

fn fail(code: u8, line: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "leno-proxy: {line}");
    ExitCode::from(code)
}
