//! Supervises a running program until it ends: forwards signals, publishes the program once it listens, and updates its
//! copies of the mesh's files.

use std::future::poll_fn;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{Child, ExitStatus};
use std::task::Poll;
use std::time::{Duration, Instant};

use leno_lab::signals::is_ignored;
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{interval, sleep, timeout};

use super::error::{Result, io};
use super::listening::unserved;
use super::member::{Member, NOTICE_TIME};
use super::process::Proxy;

/// Interval at which the supervisor checks the mesh's files for changes.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);
/// Time after which the supervisor reports that the program does not listen on its ports yet.
const LISTEN_PATIENCE: Duration = Duration::from_secs(5);
/// Time after a signal until the supervisor looks at the program's ports again. If the program still listens then, it
/// has survived the signal: a program that ends gracefully usually closes its ports at once, and then finishes its
/// calls.
const ENDING_TIME: Duration = Duration::from_secs(5);
/// Maximum pause between two checks of the ports. The pauses grow up to it, because a check costs milliseconds: the
/// kernel walks through all its TCP connections.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// Signals that end a program unless it handles them.
const ENDING: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// Signals whose meaning each program defines itself.
const OTHER: [Signal; 2] = [Signal::USR1, Signal::USR2];

/// Signals that are forwarded to the program.
pub(super) struct Signals(Vec<(Signal, tokio::signal::unix::Signal)>);

impl Signals {
    /// Starts to receive the signals. If SIGHUP is ignored, as under nohup, keeps ignoring it; the program inherits
    /// this. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the system refuses a handler for a signal.
    pub(super) fn take() -> Result<Self> {
        let has_nohup = is_ignored(SignalKind::hangup());
        let taken = ENDING.into_iter().chain(OTHER).filter(|signal| !(has_nohup && *signal == Signal::HUP));
        let listen = |of: Signal| Ok((of, signal(SignalKind::from_raw(of.as_raw()))?));
        let signals: std::io::Result<_> = taken.map(listen).collect();
        Ok(Self(signals.map_err(io("watching for signals"))?))
    }

    /// Returns a signal that has already arrived, if it is one of [`ENDING`]. To be called before the program starts.
    /// Drops a signal of [`OTHER`] deliberately: the program would have no handler for it yet, so the signal would kill
    /// it.
    pub(super) async fn ending(&mut self) -> Option<Signal> {
        // Yield for a moment, so that the runtime can deliver signals that arrived earlier.
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

/// Watches the program until it ends. If the proxy ends before the program, restarts the proxy.
///
/// # Errors
/// If the proxy cannot be restarted, or the system refuses a step.
pub(super) async fn supervise(
    member: &mut Member<'_>,
    signals: &mut Signals,
    proxy: &mut Proxy,
    program: &mut Child,
) -> Result<ExitStatus> {
    let mut children = signal(SignalKind::child()).map_err(io("watching for signals"))?;
    let mut refresh = interval(REFRESH_INTERVAL);
    let mut readiness = Readiness::new(member.ports(), Instant::now());
    loop {
        tokio::select! {
            _ = children.recv() => {}
            signal = signals.next() => forward(signal, member, &mut readiness, program).await?,
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
            let mut start = pin!(Proxy::start(member));
            // Continue to forward signals and to watch the program while the new proxy starts, which may take seconds.
            *proxy = loop {
                tokio::select! {
                    started = &mut start => break started?,
                    signal = signals.next() => forward(signal, member, &mut readiness, program).await?,
                    _ = children.recv() => {
                        if let Some(status) = program.try_wait().map_err(io("watching the program"))? {
                            return Ok(status);
                        }
                    }
                }
            };
        }
    }
}

/// Forwards a signal to the program. Before a signal that may end the program, withdraws it from the mesh.
///
/// # Errors
/// If the program cannot be withdrawn from the mesh.
async fn forward(signal: Signal, member: &Member<'_>, readiness: &mut Readiness, program: &Child) -> Result<()> {
    if ENDING.contains(&signal) {
        readiness.note_ending(Instant::now());
        // Withdraw first: clients must choose other endpoints before the program stops accepting calls.
        if member.withdraw()? {
            sleep(NOTICE_TIME).await;
        }
    }
    if !comes_from_terminal(signal) {
        // Ignore an error: the program may already have ended.
        let _ = kill_process(Pid::from_child(program), signal);
    }
    Ok(())
}

/// Tracks whether the program listens on its ports, and publishes the program once it listens.
struct Readiness {
    ports: Vec<u16>,
    /// Whether the program is not published, and must be once it listens on all `ports`.
    waits: bool,
    began: Instant,
    look_at: Instant,
    has_complained: bool,
}

impl Readiness {
    fn new(ports: Vec<u16>, now: Instant) -> Self {
        Self { waits: !ports.is_empty(), ports, began: now, look_at: now, has_complained: false }
    }

    /// Starts to wait again after a signal that may end the program, before which the program is withdrawn from the
    /// mesh. Some programs survive such a signal: HUP, for example, makes many servers reload their configuration. If
    /// the program still listens after [`ENDING_TIME`], it is published again.
    fn note_ending(&mut self, now: Instant) {
        let earliest = now + ENDING_TIME;
        *self = Self {
            // Do not complain that the program does not listen: a program that ends closes its ports.
            has_complained: true,
            ..Self::new(std::mem::take(&mut self.ports), earliest)
        };
    }

    fn is_due(&self, now: Instant) -> bool {
        self.waits && now >= self.look_at
    }

    fn look(&mut self, member: &Member<'_>, proxy: &Proxy) -> Result<()> {
        let now = Instant::now();
        if !self.is_due(now) {
            return Ok(());
        }
        // Read the ports in the network namespace of the proxy's process: a program that was just started may not yet
        // have entered the namespace.
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

/// Returns the pause before the next check of the ports: a tenth of `waited`, but at most [`LOOK_INTERVAL_MAX`].
/// `waited` is the time for which the program has not listened yet. So the pause delays the first call by at most a
/// tenth of this time.
fn look_interval(waited: Duration) -> Duration {
    (waited / 10).min(LOOK_INTERVAL_MAX)
}

/// Returns the message about a program that does not listen yet after [`LISTEN_PATIENCE`].
fn complaint(program: &str, unserved: &[u16]) -> String {
    let ports: Vec<String> = unserved.iter().map(u16::to_string).collect();
    let (word, ports) = (if ports.len() == 1 { "port" } else { "ports" }, ports.join(", "));
    format!(
        "after {} s {program} does not listen on {word} {ports} yet; the mesh sends it calls once it listens on every --port",
        LISTEN_PATIENCE.as_secs()
    )
}

/// Whether the terminal also sends this signal to the program directly, as after Ctrl-C while we are in the foreground.
fn comes_from_terminal(signal: Signal) -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    let in_foreground = || terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()));
    matches!(signal, Signal::INT | Signal::QUIT) && in_foreground()
}

/// Returns the exit code for the exit status of a program, in the convention of shells: 128 plus the signal's number if
/// a signal killed the program.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Returns the exit code of a run that `signal` ended before the program started.
pub(super) fn exit_code_of(signal: Signal) -> u8 {
    exit_code(ExitStatus::from_raw(signal.as_raw()))
}

#[cfg(test)]
#[path = "supervise_tests.rs"]
mod tests;
