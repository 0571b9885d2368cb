//! nginx: one worker, round robin.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::hop::{Hop, Started, Wire};
use super::{Setting, Target, version_line};
use crate::child::{Child, Launch, find_program, free_address};
use crate::error::{Error, Result, io};
use crate::experiment::record::TargetKind;

/// The command that installs nginx on Debian and Ubuntu.
pub(super) const INSTALL: &str = "apt-get install nginx-light";

/// Starts nginx as the only proxy of a target.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let address = free_address()?;
    let child = start_hop(&Hop::alone("nginx", address, setting))?.wait()?;
    Ok(Target::proxy(TargetKind::Nginx, address, child))
}

/// Starts nginx in the foreground, without a master process.
///
/// # Errors
/// If nginx is not installed, or if the protocol is opaque bytes.
fn start_hop(hop: &Hop<'_>) -> Result<Started> {
    let program = program()?;
    let path = hop.dir.join(format!("{}.conf", hop.name));
    fs::write(&path, config(hop)?).map_err(io("writing nginx's configuration"))?;
    // Set the prefix, because nginx opens a log file below it before it has read its configuration.
    let args = ["-p".into(), hop.dir.as_os_str().to_owned(), "-e".into(), "stderr".into(), "-c".into(), path.into()];
    let launch = Launch::new(hop.name, program, args).on_cpus(hop.cpus);
    Ok(Started { child: Child::start(&launch, hop.dir)?, listener: hop.listener, admin: None })
}

/// Returns nginx's version, without the words `nginx version:`.
pub(super) fn version() -> Result<String> {
    let line = version_line("nginx", &program()?, &["-v"])?;
    Ok(line.trim_start_matches("nginx version: ").to_owned())
}

fn program() -> Result<PathBuf> {
    find_program("nginx").ok_or(Error::MissingProgram { program: "nginx", install: INSTALL })
}

/// nginx's configuration: one worker, no access log, and persistent connections to the backends.
///
/// Two defaults are replaced. With the default `keepalive_requests`, nginx would close connections in the middle of an
/// experiment. With the default `http2_max_concurrent_streams`, a connection could have only 128 calls in flight.
fn config(hop: &Hop<'_>) -> Result<String> {
    let (http2, pass) = match hop.downstream.wire {
        Wire::Http2 => (" http2", "grpc_pass grpc://backends;\n            grpc_read_timeout 1h;"),
        Wire::Http1 => (
            "",
            "proxy_pass http://backends;\n            proxy_http_version 1.1;\n            proxy_set_header Connection \"\";",
        ),
        Wire::Opaque => {
            let what =
                "--targets nginx carries calls only: Debian's nginx has no stream module; leave nginx out in tcp";
            return Err(Error::Usage(what.to_owned()));
        }
    };
    let mut servers = String::new();
    for address in hop.upstreams {
        // Writing to a String cannot fail.
        let _ = writeln!(servers, "        server {address};");
    }
    let listener = hop.listener;
    let dir = temporary_paths(hop.dir);
    Ok(format!(
        "\
daemon off;
master_process off;
worker_processes 1;
pid {pid};
events {{
    worker_connections 65536;
}}
http {{
    access_log off;
{dir}    keepalive_requests 1000000000;
    http2_max_concurrent_streams 1024;
    upstream backends {{
{servers}        keepalive 1024;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {listener}{http2} reuseport;
        location / {{
            {pass}
        }}
    }}
}}
",
        pid = hop.dir.join(format!("{}.pid", hop.name)).display(),
    ))
}

/// The directories that nginx creates at its start. The default directories are writable only for root.
fn temporary_paths(dir: &Path) -> String {
    let line = |kind| format!("    {kind}_temp_path {}/nginx-{kind};\n", dir.display());
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(line).concat()
}

#[cfg(test)]
#[path = "nginx_tests.rs"]
mod tests;
