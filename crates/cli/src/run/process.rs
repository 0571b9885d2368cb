//! Starts and stops the two processes of a run: the program and its proxy.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use leno_lab::http;
use leno_model::proxy;
use leno_model::spiffe::Workload;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::enter;
use super::error::{Error, Result, io as io_error};
use super::member::Member;
use super::network::namespace;
use super::user::User;

/// Maximum time until a proxy is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
const READY_POLL: Duration = Duration::from_millis(20);
/// Number of lines from the end of the proxy's log that the error quotes if the proxy does not become ready.
const LOG_END_LINES: usize = 3;
/// Time for calls in flight to finish after the program has ended.
const GRACE: Duration = Duration::from_secs(5);
/// Time for the proxy to exit, in addition to [`GRACE`].
const AFTER_GRACE: Duration = Duration::from_secs(1);
/// The proxy's admin address, within its namespace.
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), proxy::ADMIN_PORT);

/// A running proxy. Dropping it kills the process.
pub(super) struct Proxy(Child);

impl Proxy {
    /// Starts the proxy of a run and waits until it is ready. Dropping the future kills the proxy.
    ///
    /// # Errors
    /// If the proxy does not become ready; the error quotes the end of the proxy's log.
    pub(super) async fn start(member: &Member<'_>) -> Result<Self> {
        let log = member.proxy_log();
        let open = || File::options().create(true).append(true).open(&log);
        let (output, errors) =
            open().and_then(|file| Ok((file.try_clone()?, file))).map_err(io_error(log.display().to_string()))?;
        let has_v6 = Path::new("/proc/net/if_inet6").exists();
        let mut args = proxy_args(&member.mesh.state.manifests(), &member.workload, &member.issuer(), has_v6);
        args.extend_from_slice(member.proxy_args());
        let mut command = enter_command(member, None, Some(User::new(proxy::UID)), args)?;
        // Use a separate process group, so that Ctrl-C in the terminal reaches only the program: the proxy must outlive
        // the program.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let mut this = Self(command.spawn().map_err(io_error("starting the proxy"))?);
        this.wait_until_ready(member).await?;
        Ok(this)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Returns how the proxy ended; `None` while it runs.
    pub(super) fn status(&mut self) -> Option<String> {
        self.0.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Lets the proxy finish its calls, and waits until the proxy has ended.
    pub(super) fn drain(mut self) {
        // Send no signal to a proxy that has ended: another process may have its process id now.
        if self.status().is_some() {
            return;
        }
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let latest = Instant::now() + GRACE + AFTER_GRACE;
        while self.status().is_none() && Instant::now() < latest {
            thread::sleep(READY_POLL);
        }
    }

    async fn wait_until_ready(&mut self, member: &Member<'_>) -> Result<()> {
        let latest = Instant::now() + READY_TIMEOUT;
        let (network, log) = (&member.mesh.network, member.proxy_log());
        while !network.inside(member.run, || http::is_ok(ADMIN, "/ready"))? {
            if let Some(status) = self.status() {
                return Err(Error::ProxyEnded { status, last_line: last_lines(&log, 1) });
            }
            if Instant::now() > latest {
                return Err(Error::ProxyNotReady {
                    waited_s: READY_TIMEOUT.as_secs(),
                    log_end: last_lines(&log, LOG_END_LINES),
                    kept_log: member.kept_log().map(Path::to_owned),
                });
            }
            sleep(READY_POLL).await;
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Ignore an error: usually the proxy has already ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program of a run, with our own standard input and output.
///
/// # Errors
/// If no process can be created. If the program does not exist, the new process reports it, and this function succeeds.
pub(super) fn start_program(member: &Member<'_>, user: Option<User>, program: &[OsString]) -> Result<Child> {
    let mut command = enter_command(member, Some(&member.hosts()), user, program.to_vec())?;
    command.spawn().map_err(io_error("starting the program"))
}

/// Returns the proxy's arguments. They use the proxy's default ports, to which `leno intercept` redirects connections.
fn proxy_args(config: &Path, workload: &Workload, issuer: &Path, has_v6: bool) -> Vec<OsString> {
    let any = if has_v6 { "[::]" } else { "0.0.0.0" };
    let path = |name: &str, path: &Path| {
        let mut arg = OsString::from(name);
        arg.push(path);
        arg
    };
    let mut args = vec![path("--config=", config), path("--issuer=", issuer)];
    let words = [
        format!("--identity={workload}"),
        format!("--outbound=127.0.0.1:{}", proxy::OUTBOUND_PORT),
        format!("--inbound={any}:{}", proxy::INBOUND_PORT),
        format!("--tunnel={any}:{}", proxy::TUNNEL_PORT),
        format!("--admin={ADMIN}"),
        format!("--grace={}s", GRACE.as_secs()),
    ];
    args.extend(words.map(OsString::from));
    args.extend(has_v6.then(|| format!("--outbound=[::1]:{}", proxy::OUTBOUND_PORT).into()));
    args
}

fn enter_command(
    member: &Member<'_>,
    hosts: Option<&Path>,
    user: Option<User>,
    args: Vec<OsString>,
) -> Result<Command> {
    let name = member.mesh.network.name(member.run);
    let options = enter::Options {
        parent: std::process::id(),
        namespace: namespace(&name),
        hosts: hosts.map(Path::to_owned),
        uid: user.as_ref().map(|user| user.uid),
        gid: user.as_ref().map(|user| user.gid),
        group: user.map(|user| user.groups).unwrap_or_default(),
        // A process without a hosts file is the proxy. Only the program needs one: the proxy connects to addresses, not
        // to names.
        proxy: hosts.is_none(),
        args,
    };
    let mut command = Command::new(executable());
    command.args(options.to_args());
    Ok(command)
}

/// The path of our own executable. If an upgrade has replaced the file, the path in /proc still leads to the running
/// one.
fn executable() -> PathBuf {
    let file = std::env::current_exe().ok().filter(|path| path.exists());
    file.unwrap_or_else(|| "/proc/self/exe".into())
}

/// Returns the last non-empty lines of a log, at most `count`, joined for a one-line error message.
fn last_lines(log: &Path, count: usize) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<&str> = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(count).collect();
    lines.reverse();
    if lines.is_empty() { "it wrote nothing".to_owned() } else { lines.join(" / ") }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
