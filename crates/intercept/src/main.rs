//! `leno-init`: the init container of a meshed Pod, which runs before every other container.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use leno_intercept::{Redirection, kernel};

/// Redirects the TCP connections of this network namespace to the proxy that will run in it
#[derive(Parser)]
#[command(name = "leno-init", version)]
struct Args {
    #[command(flatten)]
    redirection: Redirection,
}

fn main() -> ExitCode {
    let Args { redirection } = Args::parse();
    let done = redirection.check().map_err(|error| error.to_string());
    match done.and_then(|()| kernel::load(&redirection).map_err(|error| error.to_string())) {
        Ok(()) => {
            let Redirection { inbound_port, outbound_port, proxy_uid, .. } = redirection;
            println!("redirected: inbound to {inbound_port}, outbound to {outbound_port}, except for user {proxy_uid}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("leno-init: {error}");
            ExitCode::FAILURE
        }
    }
}
