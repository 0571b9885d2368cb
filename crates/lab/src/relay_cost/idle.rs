//! The cost of idle clients: thousands of connections that made one call each and then stay open.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::backends::UNARY_PATH;
use super::{JsonLines, Options, Stage, print, start_targets};
use crate::error::{Error, Result};
use crate::experiment::record::TargetKind;
use crate::procfs;
use crate::targets::Target;
use crate::units::{BYTES_PER_KB, mb};

const CONNECTIONS: u32 = 10_000;
/// Maximum number of connections that are being opened at any time. It is below a listener's backlog, so that the
/// kernel drops no connection.
const OPENING_AT_ONCE: u32 = 100;
/// Pause for the proxy to return memory to the system. The lab pauses after the first client has disconnected, and
/// again after all clients have disconnected.
const RECOVERY: Duration = Duration::from_secs(10);
/// Pause before the lab reads the proxy's memory, so that the proxy has finished the last call.
const SETTLE: Duration = Duration::from_millis(500);

/// Resident memory of one target's proxy without, with, and after its clients.
#[derive(serde::Serialize)]
struct IdleCost {
    target: TargetKind,
    connections: u32,
    /// Memory [`RECOVERY`] after a single client connected, made a call and disconnected.
    before_kib: u64,
    connected_kib: u64,
    /// Memory [`RECOVERY`] after all clients disconnected.
    after_kib: u64,
}

impl fmt::Display for IdleCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, connected, after] = [self.before_kib, self.connected_kib, self.after_kib].map(|kib| kib * 1024);
        let growth = connected.saturating_sub(before) as f64 / BYTES_PER_KB;
        let per_connection = growth / f64::from(self.connections);
        let left_over = (after as f64 / before as f64 - 1.0) * 100.0;
        write!(f, "{:8} idle {:.1} MB", self.target, mb(before))?;
        write!(f, ", with {} connections {:.1} MB", self.connections, mb(connected))?;
        write!(f, " ({per_connection:.2} KB each)")?;
        let waited = RECOVERY.as_secs();
        write!(f, ", {waited} s after they left {:.1} MB ({left_over:+.0} %)", mb(after))
    }
}

/// Measures each proxy in turn.
pub(super) fn run(options: &Options, out: &mut dyn Write) -> Result<()> {
    let connections = options.connections.unwrap_or(CONNECTIONS);
    let mut stage = Stage::set_up(options)?;
    let mut lines = JsonLines::create(options)?;
    for target in start_targets(options, &stage, out)? {
        if let Some(pid) = target.pid() {
            let cost = stage.foreground.wait(measure(&target, pid, connections))?;
            print(out, &cost.to_string())?;
            lines.write(&cost)?;
        }
    }
    Ok(())
}

async fn measure(target: &Target, pid: u32, connections: u32) -> Result<IdleCost> {
    drop(open(target, 1).await?);
    tokio::time::sleep(RECOVERY).await;
    let before = procfs::memory(pid)?;
    let clients = open(target, connections).await?;
    tokio::time::sleep(SETTLE).await;
    let connected = procfs::memory(pid)?;
    drop(clients);
    tokio::time::sleep(RECOVERY).await;
    let after = procfs::memory(pid)?;
    Ok(IdleCost {
        target: target.kind,
        connections,
        before_kib: before.resident_kib,
        connected_kib: connected.resident_kib,
        after_kib: after.resident_kib,
    })
}

/// Opens connections and makes one call on each. The connections stay open until the result is dropped.
async fn open(target: &Target, connections: u32) -> Result<Vec<SendRequest<Bytes>>> {
    let mut open = Vec::new();
    let mut opening = JoinSet::new();
    let address = target.address();
    for started in 0..connections {
        if started >= OPENING_AT_ONCE {
            collect(&mut opening, &mut open, target).await?;
        }
        opening.spawn(open_one(address));
    }
    while !opening.is_empty() {
        collect(&mut opening, &mut open, target).await?;
    }
    Ok(open)
}

type Opened = std::result::Result<SendRequest<Bytes>, String>;

async fn collect(opening: &mut JoinSet<Opened>, open: &mut Vec<SendRequest<Bytes>>, target: &Target) -> Result<()> {
    let opened = match opening.join_next().await {
        None => return Ok(()),
        Some(Ok(opened)) => opened,
        Some(Err(panicked)) => Err(panicked.to_string()),
    };
    let number = open.len() + 1;
    let client = opened.map_err(|why| Error::Connect {
        target: target.kind.to_string(),
        address: target.address(),
        why: format!("connection {number}: {why}"),
    })?;
    open.push(client);
    Ok(())
}

async fn open_one(address: SocketAddr) -> Opened {
    let stream = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
    let (client, connection) = h2::client::handshake(stream).await.map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let mut client = client.ready().await.map_err(|e| e.to_string())?;
    call(&mut client, address).await?;
    Ok(client)
}

async fn call(client: &mut SendRequest<Bytes>, address: SocketAddr) -> std::result::Result<(), String> {
    let request = http::Request::post(format!("http://{address}{UNARY_PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .map_err(|e| e.to_string())?;
    let (response, mut body) = client.send_request(request, false).map_err(|e| e.to_string())?;
    let empty_message = Bytes::from_static(&[0; 5]);
    body.send_data(empty_message, true).map_err(|e| e.to_string())?;
    let mut response = response.await.map_err(|e| e.to_string())?.into_body();
    let mut message_bytes = 0;
    while let Some(data) = response.data().await {
        let data = data.map_err(|e| e.to_string())?;
        message_bytes += data.len();
        response.flow_control().release_capacity(data.len()).map_err(|e| e.to_string())?;
    }
    if message_bytes == 0 {
        return Err("the answer has no message".to_owned());
    }
    Ok(())
}

#[cfg(test)]
#[path = "idle_tests.rs"]
mod tests;
