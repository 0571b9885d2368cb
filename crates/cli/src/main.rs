//! `leno`: the command-line tool.
#![forbid(unsafe_code)]

mod ca;
mod closed_pipe;
mod cluster;
mod diagnostics;
mod exec;
mod inject;
mod install;
mod intercept;
mod lab;
mod program;
mod run;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::iter;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use leno_lab::{call, demo, echo, relay_cost};

/// A gRPC service mesh: its demo, its proxy and its lab
#[derive(Parser)]
#[command(name = "leno", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show how balancing copes with one slow gRPC server of five (about 30 s)
    Demo(demo::Options),
    /// Run the proxy; the same as the program leno-proxy
    #[command(disable_help_flag = true)]
    Proxy {
        /// Arguments of leno-proxy; --help lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Make a certificate authority for one machine, and certificates for programs that are not proxies
    #[command(subcommand)]
    Ca(ca::Command),
    /// Run a program in its own network namespace, with a proxy: a sidecar without Kubernetes
    Run(run::Options),
    /// Redirect this network namespace's connections to the proxy, with nftables or iptables
    #[command(subcommand)]
    Intercept(intercept::Command),
    /// Print the objects of an installation on Kubernetes, for kubectl apply -f -
    Install(install::Options),
    /// Add proxies to Kubernetes manifests
    Inject(inject::Options),
    /// Remove the proxies from Kubernetes manifests
    Uninject(inject::UninjectOptions),
    /// Print this version's objects for an existing installation on Kubernetes, with the installation's values
    Upgrade(cluster::upgrade::Options),
    /// Print the objects of a cluster's installation, for kubectl delete -f -
    Uninstall(cluster::uninstall::Options),
    /// Check whether Leno can be installed in a cluster, or works there, and name the remedy for each problem
    Check(cluster::check::Options),
    /// Show calls, success, latency and encryption of workloads; or of methods, callers, routes and open streams
    Stat(Box<cluster::stat::Options>),
    /// Open a page in the browser: Services, methods, endpoints, who calls whom, open streams, a live tap, and problems
    Dashboard(Box<cluster::dashboard::Options>),
    /// Show the worst problems first: failing and denied calls, missed objectives, expiring certificates, silent
    /// proxies
    Problems(Box<cluster::problems::Options>),
    /// Show each call when it ends, with its status, duration and peer
    Tap(cluster::tap::Options),
    /// Explain what would happen to a call: its route, its limits, its endpoint, and which policy would deny it
    Explain(Box<cluster::explain::Options>),
    /// Show the certificate that each proxy presents to its peers
    Identity(cluster::identity::Options),
    /// Show the policies that apply to workloads, the callers that they allow, and the calls allowed and denied
    Authz(cluster::authz::Options),
    /// Run a gRPC echo server, with reflection for grpcurl
    Echo(echo::Options),
    /// Call a gRPC echo server at a fixed rate, and report each server's share of answers and latency
    Call(call::Options),
    /// Inspect the mesh, and connect other programs to it
    #[command(subcommand)]
    Diagnostics(diagnostics::Command),
    /// Measure proxies, and how they handle slow or failing servers
    #[command(subcommand)]
    Lab(lab::Command),
    /// Measure the cost of relaying a call, in comparison with HAProxy
    RelayCost(relay_cost::Options),
    /// Show the version of this program, and the versions in the cluster
    Version(cluster::version::Options),
    /// Print the completion script for a shell: source <(leno completion bash)
    Completion {
        /// Shell to complete for
        #[arg(value_name = "bash|zsh|fish", value_parser = parse_shell)]
        shell: Shell,
    },
    /// Execute a program that ends when its parent ends
    #[command(hide = true)]
    Exec(exec::Options),
    /// Enter a network namespace, and execute a program or the proxy
    #[command(hide = true)]
    Enter(run::enter::Options),
}

fn main() -> ExitCode {
    execute(Cli::parse().command).unwrap_or_else(|error| {
        if closed_pipe::is_cause(&*error) {
            return ExitCode::SUCCESS;
        }
        eprintln!("leno: {error}");
        ExitCode::FAILURE
    })
}

fn execute(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Demo(options) => demo::run(&options)?,
        Command::Proxy { args } => return Ok(run_proxy(args)),
        Command::Ca(command) => command.run()?,
        Command::Run(options) => return Ok(run::run(&options)?),
        Command::Intercept(command) => command.run()?,
        Command::Install(options) => options.run()?,
        Command::Inject(options) => return Ok(options.run()?),
        Command::Uninject(options) => return Ok(options.run()?),
        Command::Upgrade(options) => options.run()?,
        Command::Uninstall(options) => options.run()?,
        Command::Check(options) => return options.run(),
        Command::Stat(options) => options.run()?,
        Command::Dashboard(options) => options.run()?,
        Command::Problems(options) => return options.run(),
        Command::Tap(options) => options.run()?,
        Command::Explain(options) => return options.run(),
        Command::Identity(options) => options.run()?,
        Command::Authz(options) => options.run()?,
        Command::Echo(options) => echo::run(&options)?,
        Command::Call(options) => call::run(&options)?,
        Command::Diagnostics(command) => command.run()?,
        Command::Lab(command) => command.run()?,
        Command::RelayCost(options) => relay_cost::run(&options, &mut io::stdout())?,
        Command::Version(options) => options.run()?,
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "leno", &mut script);
            io::stdout().write_all(&script)?;
        }
        Command::Exec(options) => return Err(options.become_program().into()),
        Command::Enter(options) => return options.run(),
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses the name of a shell. clap's own parser would also accept shells that we do not support.
fn parse_shell(text: &str) -> Result<Shell, String> {
    match text {
        "bash" => Ok(Shell::Bash),
        "zsh" => Ok(Shell::Zsh),
        "fish" => Ok(Shell::Fish),
        _ => Err("use bash, zsh or fish".to_owned()),
    }
}

fn run_proxy(args: Vec<OsString>) -> ExitCode {
    let name = OsString::from("leno-proxy");
    leno_proxy::main_with_args(&["proxy"], iter::once(name).chain(args))
}

#[cfg(test)]
#[path = "main_tests.rs"]
mod tests;
