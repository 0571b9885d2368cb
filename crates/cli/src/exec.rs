//! `leno exec`: executes a program that ends when its parent ends. The lab starts every child process with it; not for
//! direct use.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Options of `leno exec`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Process id of the expected parent
    #[arg(long)]
    parent: u32,
    /// A CPU that the program may use; default: all
    #[arg(long)]
    cpu: Vec<usize>,
    /// Program to run
    program: PathBuf,
    /// Arguments of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Options {
    /// Replaces this process with the program; returns only if that fails.
    pub(crate) fn become_program(self) -> io::Error {
        leno_lab::child::become_program(self.parent, &self.cpu, &self.program, &self.args)
    }
}
