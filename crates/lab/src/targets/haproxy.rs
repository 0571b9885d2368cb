//! HAProxy.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::hop::{Hop, Started, Tls, Wire};
use super::{Setting, Target, version_line};
use crate::child::{Child, Launch, find_program, free_address};
use crate::error::{Error, Result, io};
use crate::experiment::record::TargetKind;

/// The command that installs HAProxy on Debian and Ubuntu.
pub(super) const INSTALL: &str = "apt-get install haproxy";
/// TLS options for clients and backends alike: TLS 1.3 with one cipher suite, and verification of the peer's
/// certificate.
const TLS: &str = "ssl-min-ver TLSv1.3 ciphersuites TLS_AES_128_GCM_SHA256 verify required";

/// Starts HAProxy as the only proxy of a target.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let address = free_address()?;
    let child = start_hop(&Hop::alone("haproxy", address, setting))?.wait()?;
    Ok(Target::proxy(TargetKind::Haproxy, address, child))
}

/// Starts HAProxy in the foreground, without a master process.
pub(super) fn start_hop(hop: &Hop<'_>) -> Result<Started> {
    let program = program()?;
    let path = hop.dir.join(format!("{}.cfg", hop.name));
    fs::write(&path, config(hop)).map_err(io("writing haproxy's configuration"))?;
    let args = ["-db".into(), "-f".into(), path.into_os_string()];
    let launch = Launch::new(hop.name, program, args).on_cpus(hop.cpus);
    Ok(Started { child: Child::start(&launch, hop.dir)?, listener: hop.listener, admin: None })
}

/// Returns the line that contains HAProxy's version, without the project's URL.
pub(super) fn version() -> Result<String> {
    let line = version_line("haproxy", &program()?, &["-v"])?;
    Ok(line.split(" - ").next().unwrap_or(&line).to_owned())
}

fn program() -> Result<PathBuf> {
    find_program("haproxy").ok_or(Error::MissingProgram { program: "haproxy", install: INSTALL })
}

/// HAProxy's configuration, chosen for speed: one thread, no log, and maximal reuse of connections to the backends.
///
/// HAProxy only verifies that the authority issued a certificate. It cannot check the SPIFFE id, because it does not
/// compare URI names.
fn config(hop: &Hop<'_>) -> String {
    let mode = if hop.downstream.wire == Wire::Opaque { "tcp" } else { "http" };
    let bind = bind_options(hop.downstream.wire, hop.downstream.tls);
    let mut config = format!(
        "\
global
    nbthread 1
    # Twice the connections, as HAProxy reckons, would be more files than a process may open.
    no strict-limits
    maxconn 19500
    tune.h2.max-concurrent-streams 1000
defaults
    mode {mode}
    timeout connect 5s
    timeout client 5m
    timeout server 60s
frontend calls
    bind {}{bind}
    default_backend backends
backend backends
    balance leastconn
",
        hop.listener
    );
    if mode == "http" {
        config.push_str("    http-reuse always\n");
    }
    let server = server_options(hop.upstream.wire, hop.upstream.tls);
    for (number, address) in hop.upstreams.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(config, "    server s{number} {address}{server}");
    }
    config
}

fn bind_options(wire: Wire, tls: Option<Tls<'_>>) -> String {
    tls.map_or_else(|| proto(wire).to_owned(), |tls| secure(wire, tls) + " no-tls-tickets")
}

fn server_options(wire: Wire, tls: Option<Tls<'_>>) -> String {
    tls.map_or_else(|| proto(wire).to_owned(), |tls| secure(wire, tls))
}

fn secure(wire: Wire, tls: Tls<'_>) -> String {
    let (both, authority) = (tls.credentials.both.display(), tls.credentials.authority.display());
    let alpn = wire.alpn().map(|name| format!(" alpn {name}")).unwrap_or_default();
    format!("{} ssl crt {both} ca-file {authority} {TLS}{alpn}", proto(wire))
}

fn proto(wire: Wire) -> &'static str {
    match wire {
        Wire::Http2 => " proto h2",
        Wire::Http1 | Wire::Opaque => "",
    }
}

#[cfg(test)]
#[path = "haproxy_tests.rs"]
mod tests;
