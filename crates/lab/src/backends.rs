//! The backends of an experiment: real gRPC servers, or HTTP servers without gRPC. Each backend is a process with one
//! thread. The lab can make a backend slow, or let it fail, while the backend runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::child::{Child, Launch, free_address};
use crate::echo::proto::echo_client::EchoClient;
use crate::echo::proto::{CountRequest, SetDelayRequest, SetFailureRequest};
use crate::error::{Error, Result, io};
use crate::experiment::record::Protocol;
use crate::procfs;

/// Longest time for a backend to finish its open calls.
const GRACE: Duration = Duration::from_secs(10);

/// Service time of a healthy backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ServiceTime {
    /// Minimum, in ms.
    pub(crate) base_ms: u32,
    /// Maximum of the random time that is added to `base_ms`, in ms.
    pub(crate) spread_ms: u32,
}

/// A fault that the lab gives to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The backend delays every answer by this time, in ms; 0 means no fault.
    Slow(u32),
    /// The backend delays `percent` % of its answers, chosen at random, by `slow_ms`.
    SlowAtTimes { percent: u32, slow_ms: u32 },
    /// The backend fails `percent` % of its calls, chosen at random, at once with UNAVAILABLE.
    Failing { percent: u32 },
}

impl Trouble {
    /// No fault.
    pub(crate) const NONE: Self = Self::Slow(0);

    /// Returns the two requests that give a backend this fault. `healthy` is the service time without a fault.
    pub(crate) fn requests(self, healthy: ServiceTime) -> (SetDelayRequest, SetFailureRequest) {
        let ServiceTime { base_ms, spread_ms } = healthy;
        let mut delay = SetDelayRequest { delay_ms: base_ms, spread_ms, ..SetDelayRequest::default() };
        let mut failure = SetFailureRequest::default();
        match self {
            Self::Slow(skew_ms) => delay.delay_ms += skew_ms,
            Self::SlowAtTimes { percent, slow_ms } => (delay.slow_percent, delay.slow_ms) = (percent, slow_ms),
            Self::Failing { percent } => failure = SetFailureRequest { code: Code::Unavailable as u32, percent },
        }
        (delay, failure)
    }
}

/// How a backend ends before it restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// With SIGTERM: the backend finishes its open calls.
    Graceful,
    /// With SIGKILL.
    Abrupt,
}

/// The calls and messages that have reached each backend so far, answered or not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) calls: Vec<u64>,
    pub(crate) messages: Vec<u64>,
}

/// The parameters for starting one backend. A restart uses them again.
struct Start {
    log: String,
    /// Address for gRPC calls; the lab's control calls use it too.
    control: SocketAddr,
    args: Vec<String>,
}

/// The running backends. Dropping them ends the processes.
pub(crate) struct Backends {
    /// The addresses that the load calls. If the backends serve HTTP without gRPC, the control calls use another
    /// address, `Start::control`.
    addresses: Vec<SocketAddr>,
    service_time: ServiceTime,
    starts: Vec<Start>,
    dir: PathBuf,
    cpus: Vec<usize>,
    children: Vec<Child>,
    /// Total CPU time of the backend processes that have already ended.
    ended_cpu_time: Duration,
    clients: Vec<EchoClient<Channel>>,
    /// The runtime of the control calls. It runs only during these calls, and while a backend ends.
    runtime: tokio::runtime::Runtime,
}

impl Backends {
    /// Starts `count` healthy backends that speak `protocol` and log to `dir`.
    pub(crate) fn start(
        count: usize,
        protocol: Protocol,
        service_time: ServiceTime,
        dir: &Path,
        cpus: &[usize],
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(io("starting the backends' control"))?;
        let mut backends = Self {
            addresses: Vec::new(),
            service_time,
            starts: Vec::new(),
            dir: dir.to_owned(),
            cpus: cpus.to_vec(),
            children: Vec::new(),
            ended_cpu_time: Duration::ZERO,
            clients: Vec::new(),
            runtime,
        };
        for number in 1..=count {
            let control = free_address()?;
            let is_plain = matches!(protocol, Protocol::Http1 | Protocol::Http2);
            let http1 = if is_plain { Some(free_address()?) } else { None };
            let args = [Some(format!("--name={}", name(number))), http1.map(|address| format!("--http1={address}"))];
            let start = Start { log: format!("backend-{number}"), control, args: args.into_iter().flatten().collect() };
            let address = http1.unwrap_or(control);
            let (child, client) = backends.start_one(&start, address)?;
            backends.starts.push(start);
            backends.addresses.push(address);
            backends.children.push(child);
            backends.clients.push(client);
        }
        Ok(backends)
    }

    fn start_one(&self, start: &Start, address: SocketAddr) -> Result<(Child, EchoClient<Channel>)> {
        let mut child = start_server(&start.log, start.control, &start.args, &self.dir, &self.cpus)?;
        child.wait_for_listener(address)?;
        Ok((child, self.runtime.block_on(connect(start.control))?))
    }

    /// Ends the backend at `index`, and starts it again at the same address, without a fault.
    ///
    /// # Errors
    /// If the new process does not serve.
    pub(crate) fn restart(&mut self, index: usize, stop: Stop) -> Result<()> {
        let child = &mut self.children[index];
        let cpu_time = procfs::cpu_time(child.pid())?;
        match stop {
            // The backend ends only after all its connections have closed, including the lab's control connection. So
            // run the lab's runtime during the wait, to close the control connection.
            Stop::Graceful => {
                child.terminate(GRACE, |pause| self.runtime.block_on(async { tokio::time::sleep(pause).await }))?;
            }
            Stop::Abrupt => child.kill(),
        }
        self.ended_cpu_time += cpu_time;
        let (child, client) = self.start_one(&self.starts[index], self.addresses[index])?;
        self.children[index] = child;
        self.clients[index] = client;
        self.set_one(index, Trouble::NONE)
    }

    /// CPU time of all backends, including backends that have ended.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let running = self.children.iter().map(|child| procfs::cpu_time(child.pid())).sum::<Result<Duration>>()?;
        Ok(self.ended_cpu_time + running)
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The names that the backends put into their answers.
    pub(crate) fn names(&self) -> Vec<String> {
        (1..=self.addresses.len()).map(name).collect()
    }

    /// Returns an error if a backend has ended.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.children.iter_mut().try_for_each(Child::ensure_running)
    }

    /// Gives the backend at `index` this fault from now on, and makes all others healthy.
    pub(crate) fn set(&self, index: usize, trouble: Trouble) -> Result<()> {
        for number in 0..self.clients.len() {
            self.set_one(number, if number == index { trouble } else { Trouble::NONE })?;
        }
        Ok(())
    }

    /// Gives every backend this fault from now on.
    pub(crate) fn set_all(&self, trouble: Trouble) -> Result<()> {
        (0..self.clients.len()).try_for_each(|number| self.set_one(number, trouble))
    }

    fn set_one(&self, index: usize, trouble: Trouble) -> Result<()> {
        let (delay, failure) = trouble.requests(self.service_time);
        let mut client = self.clients[index].clone();
        self.runtime
            .block_on(async {
                client.set_delay(delay).await?;
                client.set_failure(failure).await
            })
            .map_err(|status| self.refused(index, &status))?;
        Ok(())
    }

    /// The calls and messages that have reached each backend so far. A restarted backend counts from 0.
    pub(crate) fn counts(&self) -> Result<Counts> {
        // Query all backends at once, so that the waits overlap: under load, each answer takes a while.
        let ask = |client: &EchoClient<Channel>| {
            let mut client = client.clone();
            self.runtime.spawn(async move { client.count(CountRequest {}).await })
        };
        let answers: Vec<_> = self.clients.iter().map(ask).collect();
        let mut counts = Counts::default();
        for (index, answer) in answers.into_iter().enumerate() {
            let answer = self.runtime.block_on(answer).map_err(|error| Status::unknown(error.to_string())).flatten();
            let count = answer.map_err(|status| self.refused(index, &status))?.into_inner();
            counts.calls.push(count.calls);
            counts.messages.push(count.messages);
        }
        Ok(counts)
    }

    fn refused(&self, index: usize, status: &Status) -> Error {
        Error::Connect { target: name(index + 1), address: self.addresses[index], why: status.message().to_owned() }
    }
}

/// Starts one `leno echo` process that listens on `address`.
pub(crate) fn start_server(
    log: &str,
    address: SocketAddr,
    args: &[String],
    dir: &Path,
    cpus: &[usize],
) -> Result<Child> {
    let leno = std::env::current_exe().map_err(io("finding leno's own executable"))?;
    let listen = ["echo".to_owned(), format!("--listen={address}")];
    let launch = Launch::new(log, leno, listen.iter().chain(args)).on_cpus(cpus);
    Child::start(&launch, dir)
}

async fn connect(address: SocketAddr) -> Result<EchoClient<Channel>> {
    let cannot_connect = |error: tonic::transport::Error| Error::Connect {
        target: "a backend".to_owned(),
        address,
        why: error.to_string(),
    };
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(cannot_connect)?;
    endpoint.connect().await.map(EchoClient::new).map_err(cannot_connect)
}

fn name(number: usize) -> String {
    format!("s{number}")
}
