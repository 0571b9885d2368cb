//! `leno exec`: how the lab starts every child process. Not for people.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Options of `leno exec`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The process that must still be the parent
    #[arg(long)]
    parent: u32,
    /// A CPU that the program may use; all when not given
    #[arg(long)]
    cpu: Vec<usize>,
    /// The program
    program: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Options {
    /// Becomes the program; returns only on failure.
    pub(crate) fn become_program(self) -> io::Error {
        leno_lab::child::become_program(self.parent, &self.cpu, &self.program, &self.args)
    }
}
