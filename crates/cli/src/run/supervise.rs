//! What happens while the program runs: signals, readiness, changes of the mesh, and its end.

use std::future::poll_fn;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::task::Poll;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{interval, sleep, timeout};

use super::error::{Result, io};
use super::listening::unserved;
use super::member::{Member, NOTICE_TIME};
use super::process::Proxy;

/// How often changes are looked for.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);
/// After how long a program that does not listen is worth a line.
const LISTEN_PATIENCE: Duration = Duration::from_secs(5);
/// Longest pause between two looks at the ports. A look costs milliseconds: the kernel walks all its TCP connections.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// What ends a program, unless it thinks otherwise.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// What programs take as a request.
const OTHER: [Signal; 2] = [Signal::USR1, Signal::USR2];

/// The signals that are passed on to the program, from now on.
pub(super) struct Signals(Vec<(Signal, tokio::signal::unix::Signal)>);

impl Signals {
    /// Begins to take them. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the system refuses it.
    pub(super) fn take() -> Result<Self> {
        let listen = |of: Signal| Ok((of, signal(SignalKind::from_raw(of.as_raw()))?));
        let signals: std::io::Result<_> = ENDING.into_iter().chain(OTHER).map(listen).collect();
        Ok(Self(signals.map_err(io("watching for signals"))?))
    }

    /// Whether one that ends a program has come already.
    pub(super) async fn ending(&mut self) -> Option<Signal> {
        // A moment, in which the runtime takes notice of what came while it was not asked.
        let came = timeout(Duration::from_millis(1), self.next()).await.ok();
        came.filter(|signal| ENDING.contains(signal))
    }

    async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let arrived =
                self.0.iter_mut().find_map(|(of, signal)| signal.poll_recv(context).is_ready().then_some(*of));
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Goes along with the program until it ends; a proxy that ends before it is started again.
///
/// # Errors
/// When the proxy cannot be started again, or the system refuses something.
pub(super) async fn supervise(
    member: &mut Member<'_>,
    signals: &mut Signals,
    proxy: &mut Proxy,
    program: &mut Child,
) -> Result<ExitStatus> {
    let mut children = signal(SignalKind::child()).map_err(io("watching for signals"))?;
    let mut refresh = interval(REFRESH_INTERVAL);
    let mut readiness = Readiness::new(member.ports());
    loop {
        tokio::select! {
            _ = children.recv() => {}
            signal = signals.next() => {
                if ENDING.contains(&signal) {
                    readiness.waits = false;
                    // Calls go elsewhere before the program stops to take them.
                    if member.withdraw()? {
                        sleep(NOTICE_TIME).await;
                    }
                }
                if !comes_from_terminal(signal) {
                    // One that has ended needs no signal.
                    let _ = kill_process(Pid::from_child(program), signal);
                }
            }
            _ = refresh.tick() => {
                member.refresh();
                readiness.look(member, proxy)?;
            }
        }
        if let Some(status) = program.try_wait().map_err(io("watching the program"))? {
            return Ok(status);
        }
        if let Some(status) = proxy.status() {
            eprintln!(
                "leno: the proxy ended ({status}) and is started again; its log is {}",
                member.proxy_log().display()
            );
            *proxy = Proxy::start(member)?;
        }
    }
}

/// Whether the program serves, which the mesh is told once it does.
struct Readiness {
    ports: Vec<u16>,
    waits: bool,
    began: Instant,
    look_at: Instant,
    has_complained: bool,
}

impl Readiness {
    fn new(ports: Vec<u16>) -> Self {
        let now = Instant::now();
        Self { waits: !ports.is_empty(), ports, began: now, look_at: now, has_complained: false }
    }

    fn look(&mut self, member: &Member<'_>, proxy: &Proxy) -> Result<()> {
        let now = Instant::now();
        if !self.waits || now < self.look_at {
            return Ok(());
        }
        // The proxy is in the namespace already; a program that was just started may not be.
        let unserved = unserved(proxy.pid(), &self.ports);
        if unserved.is_empty() {
            self.waits = false;
            return member.publish();
        }
        let waited = now - self.began;
        self.look_at = now + look_interval(waited);
        if waited >= LISTEN_PATIENCE && !std::mem::replace(&mut self.has_complained, true) {
            eprintln!("leno: {}", complaint(member.program(), &unserved));
        }
        Ok(())
    }
}

/// When to look again at the ports of a program that has not listened for so long: calls reach it at most a tenth later than
/// they could.
fn look_interval(waited: Duration) -> Duration {
    (waited / 10).min(LOOK_INTERVAL_MAX)
}

/// What to say of a program that takes long to listen.
fn complaint(program: &str, unserved: &[u16]) -> String {
    let ports: Vec<String> = unserved.iter().map(u16::to_string).collect();
    let (word, ports) = (if ports.len() == 1 { "port" } else { "ports" }, ports.join(", "));
    format!(
        "after {} s {program} does not listen on {word} {ports} yet; the mesh sends it calls once it listens on every --port",
        LISTEN_PATIENCE.as_secs()
    )
}

/// Whether a signal is one that the terminal sends to the program as well: Ctrl-C while both are in the foreground.
fn comes_from_terminal(signal: Signal) -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    let in_foreground = || terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()));
    matches!(signal, Signal::INT | Signal::QUIT) && in_foreground()
}

/// The exit code that says how a program ended, as shells have it: 128 and the signal's number for a killed one.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The exit code of a run that a signal ended before its program was started.
pub(super) fn exit_code_of(signal: Signal) -> u8 {
    exit_code(ExitStatus::from_raw(signal.as_raw()))
}

#[cfg(test)]
#[path = "supervise_tests.rs"]
mod tests;
