//! The scenario `tcp`: clients send bytes for half of the time, and receive bytes for the other half.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::measure::Stage;
use super::record::{Run, Throughput};
use super::schedule::Turn;
use crate::error::{Error, Result};
use crate::load::Snapshot;
use crate::load::bulk::{Bulk, BulkServer, Direction};
use crate::units::mb;

/// The result for one direction: bytes to the server, or bytes from the server.
struct Flow {
    mb_per_s: f64,
    cpu_us_per_mb: Option<f64>,
}

impl Stage<'_> {
    /// Sends bytes through the target to `server` and back.
    ///
    /// # Errors
    /// If a program ends early, or a connection breaks or stalls.
    pub(super) fn measure_bytes(&mut self, turn: &Turn, server: &BulkServer) -> Result<Run> {
        let mut random = fastrand::Rng::with_seed(turn.seed);
        let clients = self.target.clients(turn.case.connections, &mut random);
        let addresses: Vec<SocketAddr> = clients.into_iter().map(|client| client.address).collect();
        self.target.forget_peaks();
        let before = self.meter()?;
        let up = self.flow(&addresses, server, Direction::Up)?;
        let down = self.flow(&addresses, server, Direction::Down)?;
        let after = self.meter()?;
        let numbers = Snapshot { measured: self.settings.measured, ..Snapshot::default() };
        let run = self.record(turn, numbers, (&before, &after), (0, &[]))?;
        self.target.ensure_encrypted()?;
        Ok(Run {
            // A call is one connection. Every client connects twice: once to send, and once to receive.
            calls: u64::from(turn.case.connections) * 2,
            throughput: Some(Throughput {
                up_mb_per_s: up.mb_per_s,
                down_mb_per_s: down.mb_per_s,
                up_cpu_us_per_mb: up.cpu_us_per_mb,
                down_cpu_us_per_mb: down.cpu_us_per_mb,
            }),
            proxy_cpu_us_per_call: None,
            server_proxy_cpu_us_per_call: None,
            ..run
        })
    }

    fn flow(&mut self, addresses: &[SocketAddr], server: &BulkServer, direction: Direction) -> Result<Flow> {
        let bulk = Bulk::start(addresses, server, direction, &self.settings.cpus.others)?;
        self.watch(&bulk, self.settings.warm_up)?;
        let (start, received, meter) = (Instant::now(), bulk.received(), self.meter()?);
        self.watch(&bulk, self.settings.measured / 2)?;
        let mb = mb(bulk.received() - received);
        let cpu = self.meter()?.proxy_since(&meter);
        if mb == 0.0 {
            return Err(cut_off("nothing came through"));
        }
        Ok(Flow {
            mb_per_s: mb / start.elapsed().as_secs_f64(),
            cpu_us_per_mb: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / mb),
        })
    }

    /// Waits for `time` while the load sends bytes. Then checks that the programs run and that no connection has ended.
    fn watch(&mut self, bulk: &Bulk, time: Duration) -> Result<()> {
        thread::sleep(time);
        self.ensure_running()?;
        if bulk.has_failed() {
            return Err(cut_off("a connection was cut off while bytes went through it"));
        }
        Ok(())
    }
}

fn cut_off(why: &str) -> Error {
    Error::CallsFailed { target: "bytes".to_owned(), failed: 1, calls: 1, why: why.to_owned() }
}
