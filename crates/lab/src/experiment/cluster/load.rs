//! The load of a run: `leno lab load` in each load Pod, started, fed and read through the API server.

use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::objects::{LOAD, pod_name};
use super::pods::Pods;
use crate::error::{Error, Result};
use crate::load::{Event, LAST_ANSWERS, Plan, Recording};

/// Maximum number of characters of a line that an error quotes.
const QUOTED_MAX: usize = 200;
/// Time for a load to connect and for its result to arrive, beside the time of its plan.
const AROUND_A_LOAD: Duration = Duration::from_secs(60);

/// A load that runs in several Pods. Dropping it ends the load.
pub(super) struct LoadPods {
    loads: JoinSet<Result<Recording>>,
    measuring: UnboundedReceiver<()>,
    /// The results of the loads that have ended.
    recordings: Vec<Recording>,
}

impl LoadPods {
    /// Starts a load: each plan runs in a Pod of its own.
    pub(super) fn start(pods: &Pods, plans: Vec<Plan>) -> Self {
        let (measuring, received) = unbounded_channel();
        let mut loads = JoinSet::new();
        for (index, plan) in plans.into_iter().enumerate() {
            let (pods, measuring) = (pods.clone(), measuring.clone());
            loads.spawn(async move {
                let pod = pod_name(LOAD, index);
                let time = plan.warm_up + plan.measured + LAST_ANSWERS + AROUND_A_LOAD;
                let late = |_| failed(&pod, format!("no result within {} s", time.as_secs()));
                timeout(time, run(&pods, &pod, &plan, measuring)).await.map_err(late)?
            });
        }
        Self { loads, measuring: received, recordings: Vec::new() }
    }

    /// Waits until all Pods measure.
    ///
    /// # Errors
    /// If a load ends before that.
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

    /// Waits until a load fails before its end.
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

/// Runs one plan in one Pod.
async fn run(pods: &Pods, pod: &str, plan: &Plan, measuring: UnboundedSender<()>) -> Result<Recording> {
    let mut process = pods.exec(pod, &["/leno", "lab", "load"]).await?;
    let (Some(mut input), Some(output)) = (process.stdin(), process.stdout()) else {
        return Err(failed(pod, "the API server attached no standard input and output".to_owned()));
    };
    let line = plan.to_line()?;
    let cannot_write = |error: std::io::Error| failed(pod, format!("the plan did not arrive: {error}"));
    input.write_all(line.as_bytes()).await.map_err(cannot_write)?;
    input.flush().await.map_err(cannot_write)?;
    let mut output = BufReader::new(output);
    loop {
        match next(&mut output, pod).await? {
            Event::Connected | Event::Running { .. } => {}
            // If another load has failed, the receiver is gone.
            Event::Measuring => drop(measuring.send(())),
            Event::Finished { recording } => return Ok(*recording),
            Event::Failed { why } => return Err(failed(pod, why)),
        }
    }
}

/// Reads the next event.
async fn next(output: &mut (impl AsyncBufRead + Unpin), pod: &str) -> Result<Event> {
    let mut line = Vec::new();
    let read = output.take(Event::LINE_MAX_BYTES as u64).read_until(b'\n', &mut line).await;
    read.map_err(|error| failed(pod, format!("its output broke off: {error}")))?;
    if line.is_empty() {
        return Err(failed(pod, "it ended without a result".to_owned()));
    }
    let text = || String::from_utf8_lossy(&line).trim().chars().take(QUOTED_MAX).collect::<String>();
    Event::of_line(&line).map_err(|error| failed(pod, format!("{error}; it wrote: {}", text())))
}

fn failed(pod: &str, why: String) -> Error {
    Error::Cluster { what: format!("the load in the Pod {pod}"), why }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
