//! Leno's data plane: accepts gRPC connections and sends each call to the best endpoint.
//!
//! [`worker`] is the event loop around the relay ([`leno_relay`]): the time-critical part. `control` does everything
//! else, on a thread of its own. The same binary contains three other programs: `grpc` gives a gRPC program without a
//! proxy its identity, `await_ready` waits for a proxy, and `supervise` keeps a proxy running.

pub mod access_log;
mod args;
mod await_ready;
mod control;
mod grpc;
mod identity_args;
mod metrics;
mod runtime;
mod supervise;
mod trace_args;
pub mod worker;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use args::{Args, Exit};

/// Runs the proxy. The first item of `args` is the program's name. The second item may select another program: `grpc`
/// writes the files for a gRPC program, `await-ready` waits for a proxy, and `supervise` runs a proxy as its child.
///
/// `own` has the arguments that select the proxy if it is a subcommand of another program. Otherwise `own` is empty.
///
/// The exit code is 0 after an orderly end, 2 for an invalid command line, and 1 for any other failure. Errors are one
/// line on stderr.
pub fn main_with_args(own: &[&str], args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|word| word == supervise::WORD) {
        args.remove(1);
        return match supervise::run(own, &args) {
            Ok(Ok(code)) => ExitCode::from(code),
            Ok(Err(error)) => fail(1, &error.to_string()),
            Err(exit) => exit_without_serving(&exit),
        };
    }
    let ended = if args.get(1).is_some_and(|word| word == grpc::WORD) {
        args.remove(1);
        grpc::Options::read(args.into_iter()).map(|options| grpc::run(options).map_err(|error| error.to_string()))
    } else if args.get(1).is_some_and(|word| word == await_ready::WORD) {
        args.remove(1);
        let read = await_ready::Options::read(args.into_iter());
        read.map(|options| await_ready::run(&options).map_err(|error| error.to_string()))
    } else {
        let read = Args::read(args.into_iter());
        read.map(|(args, limits)| control::run(args, limits).map_err(|error| error.to_string()))
    };
    match ended {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(1, &error),
        Err(exit) => exit_without_serving(&exit),
    }
}

fn exit_without_serving(exit: &Exit) -> ExitCode {
    match exit {
        Exit::Usage(line) => fail(2, line),
        Exit::Answer(text) => {
            // Ignore an error: the reader may have closed the pipe.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
    }
}

fn fail(code: u8, line: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "leno-proxy: {line}");
    ExitCode::from(code)
}
