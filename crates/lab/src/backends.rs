//! The backends of an experiment: real gRPC servers, or HTTP/1.1 servers. Each is a process with one thread, and can be
//! made slow or failing while it runs.

use std::net::SocketAddr;
use std::path::Path;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::child::{Child, Launch, free_address};
use crate::echo::proto::echo_client::EchoClient;
use crate::echo::proto::{CountRequest, SetDelayRequest, SetFailureRequest};
use crate::error::{Error, Result, io};
use crate::experiment::record::Protocol;

/// Service time of a healthy backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ServiceTime {
    /// Minimum, in ms.
    pub(crate) base_ms: u32,
    /// Largest random addition to the minimum, in ms.
    pub(crate) spread_ms: u32,
}

/// The fault of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The backend delays every answer by this, in ms; 0 is no fault.
    Slow(u32),
    /// The backend fails every call at once with UNAVAILABLE.
    Failing,
}

/// The running backends. Dropping them ends the processes.
pub(crate) struct Backends {
    /// Addresses of the backends.
    addresses: Vec<SocketAddr>,
    service_time: ServiceTime,
    children: Vec<Child>,
    clients: Vec<EchoClient<Channel>>,
    /// Runs only during control calls to a backend.
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
        let mut backends =
            Self { addresses: Vec::new(), service_time, children: Vec::new(), clients: Vec::new(), runtime };
        for number in 1..=count {
            let control = free_address()?;
            let http1 = if protocol == Protocol::Http1 { Some(free_address()?) } else { None };
            let args = [Some(format!("--name={}", name(number))), http1.map(|address| format!("--http1={address}"))];
            let args: Vec<String> = args.into_iter().flatten().collect();
            let mut child = start_server(&format!("backend-{number}"), control, &args, dir, cpus)?;
            let address = http1.unwrap_or(control);
            child.wait_for_listener(address)?;
            backends.clients.push(backends.runtime.block_on(connect(control))?);
            backends.addresses.push(address);
            backends.children.push(child);
        }
        Ok(backends)
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The names that the backends have in their answers.
    pub(crate) fn names(&self) -> Vec<String> {
        (1..=self.addresses.len()).map(name).collect()
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.children.iter().map(Child::pid)
    }

    /// Fails if a backend has ended.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.children.iter_mut().try_for_each(Child::ensure_running)
    }

    /// Gives the backend at `index` this fault from now on, and makes all others healthy.
    pub(crate) fn set(&self, index: usize, trouble: Trouble) -> Result<()> {
        for number in 0..self.clients.len() {
            self.set_one(number, if number == index { trouble } else { Trouble::Slow(0) })?;
        }
        Ok(())
    }

    fn set_one(&self, index: usize, trouble: Trouble) -> Result<()> {
        let (skew_ms, code) = match trouble {
            Trouble::Slow(skew_ms) => (skew_ms, 0),
            Trouble::Failing => (0, Code::Unavailable as u32),
        };
        let ServiceTime { base_ms, spread_ms } = self.service_time;
        let delay = SetDelayRequest { delay_ms: base_ms + skew_ms, spread_ms };
        let mut client = self.clients[index].clone();
        self.runtime
            .block_on(async {
                client.set_delay(delay).await?;
                client.set_failure(SetFailureRequest { code }).await
            })
            .map_err(|status| self.refused(index, &status))?;
        Ok(())
    }

    /// Number of calls that have reached each backend so far, answered or not.
    pub(crate) fn counts(&self) -> Result<Vec<u64>> {
        // Query all backends at once: under load each answer takes a while, and this way the waits overlap.
        let ask = |client: &EchoClient<Channel>| {
            let mut client = client.clone();
            self.runtime.spawn(async move { client.count(CountRequest {}).await })
        };
        let answers: Vec<_> = self.clients.iter().map(ask).collect();
        let mut counts = Vec::new();
        for (index, answer) in answers.into_iter().enumerate() {
            let answer = self.runtime.block_on(answer).map_err(|error| Status::unknown(error.to_string())).flatten();
            counts.push(answer.map_err(|status| self.refused(index, &status))?.into_inner().calls);
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
