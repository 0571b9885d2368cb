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
use super::listening::listens_on;
use super::member::{Member, NOTICE_TIME};
use super::process::Proxy;

/// How often changes are looked for.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);
/// After how long a program that does not listen is worth a line.
const LISTEN_PATIENCE: Duration = Duration::from_secs(10);

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
    /// When to say that it takes long.
    complain_at: Option<Instant>,
}

impl Readiness {
    fn new(ports: Vec<u16>) -> Self {
        let waits = !ports.is_empty();
        Self { ports, waits, complain_at: Some(Instant::now() + LISTEN_PATIENCE) }
    }

    fn look(&mut self, member: &Member<'_>, proxy: &Proxy) -> Result<()> {
        if !self.waits {
            return Ok(());
        }
        // The proxy is in the namespace already; a program that was just started may not be.
        if listens_on(proxy.pid(), &self.ports) {
            self.waits = false;
            return member.publish();
        }
        if self.complain_at.take_if(|at| *at < Instant::now()).is_some() {
            let seconds = LISTEN_PATIENCE.as_secs();
            eprintln!(
                "leno: after {seconds} s the program does not listen on {:?} yet; until then nobody calls it",
                self.ports
            );
        }
        Ok(())
    }
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
