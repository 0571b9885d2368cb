//! Leno's proxy.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::traffic_policy::traffic_policy;
use super::{Setting, Target, version_line};
use crate::child::{Child, Launch, free_address};
use crate::error::{Error, Result, io};
use crate::experiment::record::{CallPolicy, Protocol, TargetKind};
use crate::manifest::{Endpoint, Service};

/// The command that builds leno-proxy.
pub(super) const BUILD: &str = "cargo build --release";

/// Starts leno-proxy with a configuration directory that contains one Service.
pub(super) fn start(setting: &Setting<'_>) -> Result<Target> {
    let Program { path, args: mut words } = program(setting.programs.leno_proxy.as_deref())?;
    let (outbound, admin) = (free_address()?, free_address()?);
    let config = setting.dir.join("leno-config");
    let endpoints: Vec<Endpoint> = setting.backends.iter().copied().map(Endpoint::from).collect();
    write_config(&config, &Service { endpoints: &endpoints, ..service(outbound, setting.protocol) }, setting.policy)?;
    let options = [
        format!("--config={}", config.display()),
        format!("--outbound={outbound}"),
        format!("--admin={admin}"),
        "--workers=1".to_owned(),
    ];
    words.extend(options.map(OsString::from));
    let launch = Launch::new("leno-proxy", path, words).on_cpus(setting.cpus);
    let mut child = Child::start(&launch, setting.dir)?;
    child.wait_for_http_ok(admin, "/ready")?;
    Ok(Target::proxy(TargetKind::Leno, outbound, child))
}

/// Returns a Service without endpoints. Clients connect to `address`, so it is the Service's cluster IP and port:
/// h2load cannot call a Service by its name.
pub(super) fn service(address: SocketAddr, protocol: Protocol) -> Service<'static> {
    Service {
        name: "backend",
        cluster_ip: Some(address.ip()),
        port: address.port(),
        app_protocol: matches!(protocol, Protocol::Grpc | Protocol::Http2).then_some("kubernetes.io/h2c"),
        balancer: "latency",
        endpoints: &[],
    }
}

/// Writes a proxy's configuration directory. Overwrites every file, even if `policy` needs none, because an earlier run
/// may have used the directory.
pub(super) fn write_config(dir: &Path, service: &Service<'_>, policy: CallPolicy) -> Result<()> {
    let traffic_policy = traffic_policy(service.name, policy);
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(dir.join("backend.yaml"), service.to_yaml()))
        .and_then(|()| fs::write(dir.join("policy.yaml"), traffic_policy))
        .map_err(io("writing leno-proxy's configuration"))
}

/// Returns leno-proxy's version line.
pub(super) fn version(given: Option<&Path>) -> Result<String> {
    let Program { path, mut args } = program(given)?;
    args.push("--version".into());
    let args: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    version_line("leno-proxy", &path, &args)
}

/// An executable, and the arguments with which it runs as leno-proxy.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
}

/// Checks that a binary exists, and returns its path.
///
/// # Errors
/// [`Error::NotBuilt`] if the binary does not exist; the error names [`BUILD`].
pub(crate) fn built(path: PathBuf) -> Result<PathBuf> {
    if path.is_file() { Ok(path) } else { Err(Error::NotBuilt { path, build: BUILD }) }
}

/// Returns the binary `given`. If the user gave none, returns the leno-proxy beside this program. If that file does not
/// exist, returns this program itself, which contains the proxy but is a larger file.
pub(crate) fn program(given: Option<&Path>) -> Result<Program> {
    if let Some(path) = given {
        return Ok(Program { path: built(path.to_owned())?, args: Vec::new() });
    }
    let leno = std::env::current_exe().map_err(io("finding leno's own executable"))?;
    let beside = leno.with_file_name("leno-proxy");
    Ok(if beside.is_file() {
        Program { path: beside, args: Vec::new() }
    } else {
        Program { path: leno, args: vec!["proxy".into()] }
    })
}
