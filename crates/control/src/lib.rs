//! Leno's control plane: watch -> index -> translate -> publish.
//!
//! Every source of configuration provides a `tokio::sync::watch::Receiver<Arc<Mesh>>`. [`publish`] serves that mesh
//! over xDS.
#![forbid(unsafe_code)]

mod accept;
mod api_server;
mod budget;
mod cluster;
mod dns;
mod drain;
#[cfg(test)]
mod fixtures;
pub mod index;
mod issuer;
mod kubernetes;
mod local;
mod options;
mod pages;
mod probes;
pub mod publish;
mod retry;
mod run;
mod source;
mod status;
mod unmeshed;
mod watch;
mod webhooks;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use options::Options;

/// Runs the control plane; `args` starts with the program's name.
///
/// The exit code is 0 after an orderly end, 2 for an invalid command line, and 1 for any other failure.
pub fn main_with_args(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(error) => {
            // Ignore errors: the reader of standard output may have closed it.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match run::run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "leno-control: {error}");
            ExitCode::FAILURE
        }
    }
}
