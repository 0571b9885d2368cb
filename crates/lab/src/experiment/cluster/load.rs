//! The load of a run: `leno lab load` in each load Pod. Through the API server, the lab starts this command, sends it
//! the plan, and reads its events.
//!
//! ```text
//! plan -> Pod connects -> ready -> (all Pods ready) -> start -> measuring -> recording
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::exec::{Exec, one_line};
use super::objects::{LOAD, pod_name};
use super::pods::Pods;
use crate::error::{Error, Result};
use crate::load::{Event, LAST_ANSWERS, Plan, Recording, START};

/// The command of a load.
const COMMAND: [&str; 4] = ["/leno", "lab", "load", "--await-start"];
/// Longest time for a load to connect all its clients.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time for a result to arrive after the end of the plan.
const RESULT_TIMEOUT: Duration = Duration::from_secs(60);

/// A load that runs in several Pods. Dropping it ends the load.
pub(super) struct LoadPods {
    loads: JoinSet<Result<Recording>>,
    measuring: UnboundedReceiver<()>,
    /// The results of the loads that have ended.
    recordings: Vec<Recording>,
}

impl LoadPods {
    /// Starts a load: each plan runs in a Pod of its own. All Pods begin when the last Pod has connected.
    pub(super) fn start(pods: &Pods, plans: Vec<Plan>) -> Self {
        let (measuring, received) = unbounded_channel();
        let mut loads = JoinSet::new();
        let all_ready = Arc::new(Barrier::new(plans.len()));
        for (index, plan) in plans.into_iter().enumerate() {
            let (pods, all_ready, measuring) = (pods.clone(), Arc::clone(&all_ready), measuring.clone());
            loads.spawn(async move { run(&pods, &pod_name(LOAD, index), &plan, &all_ready, measuring).await });
        }
        Self { loads, measuring: received, recordings: Vec::new() }
    }

    /// Waits until all Pods measure.
    ///
    /// # Errors
    /// If a load ends before it measures.
    pub(super) async fn measuring(&mut self) -> Result<()> {
        for _ in 0..self.loads.len() {
            tokio::select! {
                Some(()) = self.measuring.recv() => {}
                ended = self.loads.join_next() => match ended {
                    Some(Ok(Err(error))) => return Err(error),
                    _ => return Err(failed(LOAD, "it ended before it measured".to_owned())),
                }
            }
        }
        Ok(())
    }

    /// Waits for the first load that fails, and returns its error. Keeps the results of the loads that succeed. If no
    /// load fails, waits forever.
    pub(super) async fn failed(&mut self) -> Error {
        loop {
            match self.loads.join_next().await {
                Some(Ok(Ok(recording))) => self.recordings.push(recording),
                Some(Ok(Err(error))) => return error,
                Some(Err(panic)) => return failed(LOAD, panic.to_string()),
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for the results of all Pods.
    ///
    /// # Errors
    /// If a load fails, or gives no result in time.
    pub(super) async fn finish(mut self) -> Result<Vec<Recording>> {
        while let Some(ended) = self.loads.join_next().await {
            self.recordings.push(ended.map_err(|error| failed(LOAD, error.to_string()))??);
        }
        Ok(self.recordings)
    }
}

/// Runs one plan in one Pod, and returns the result. Starts the load when the loads in all Pods are ready.
async fn run(
    pods: &Pods,
    pod: &str,
    plan: &Plan,
    all_ready: &Barrier,
    measuring: UnboundedSender<()>,
) -> Result<Recording> {
    let connecting = async {
        let mut process = pods.exec(pod, &COMMAND).await?;
        let is_ready = prepare(&mut process, plan).await?;
        Ok((process, is_ready))
    };
    let late = |what, time: Duration| failed(pod, format!("{what} within {} s", time.as_secs()));
    let connected = timeout(CONNECT_TIMEOUT, connecting).await;
    let (mut process, is_ready) = connected.map_err(|_| late("not all clients connected", CONNECT_TIMEOUT))??;
    if !is_ready {
        return Err(process.ended().await);
    }
    // This wait cannot hang. If the load in another Pod fails, the caller drops this future.
    all_ready.wait().await;
    let time = plan.warm_up + plan.measured + LAST_ANSWERS + RESULT_TIMEOUT;
    match timeout(time, follow(&mut process, measuring)).await.map_err(|_| late("no result", time))?? {
        Some(recording) => Ok(recording),
        None => Err(process.ended().await),
    }
}

/// Sends the plan to a load, and waits until the load's clients have connected. Returns false if the load ended before
/// that.
async fn prepare(process: &mut Exec, plan: &Plan) -> Result<bool> {
    if process.write(&plan.to_line()?).await.is_err() {
        return Ok(false);
    }
    while let Some(event) = next(process).await? {
        match event {
            Event::Running { .. } => {}
            Event::Ready => return Ok(true),
            Event::Failed { why } => return Err(process.error(why)),
            other => return Err(process.error(format!("{other:?} arrived before the signal"))),
        }
    }
    Ok(false)
}

/// Starts a load, and follows its events. Returns `None` if the load ends before it sends its result.
async fn follow(process: &mut Exec, measuring: UnboundedSender<()>) -> Result<Option<Recording>> {
    if process.write(START).await.is_err() {
        return Ok(None);
    }
    while let Some(event) = next(process).await? {
        match event {
            Event::Ready | Event::Connected | Event::Running { .. } => {}
            // Sending fails only if the load in another Pod has failed and the receiver was dropped.
            Event::Measuring => drop(measuring.send(())),
            Event::Finished { recording } => return Ok(Some(*recording)),
            Event::Failed { why } => return Err(process.error(why)),
        }
    }
    Ok(None)
}

/// Reads the next event; `None` at the end of the output.
async fn next(process: &mut Exec) -> Result<Option<Event>> {
    let Some(line) = process.read_line(Event::LINE_MAX_BYTES as u64).await? else { return Ok(None) };
    let text = || one_line(&String::from_utf8_lossy(&line));
    Event::of_line(&line).map(Some).map_err(|error| process.error(format!("{error}; it wrote: {}", text())))
}

fn failed(pod: &str, why: String) -> Error {
    Error::Cluster { what: format!("the load in the Pod {pod}"), why }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
