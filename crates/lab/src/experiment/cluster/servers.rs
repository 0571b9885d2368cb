//! The servers in one namespace. This module gives the servers faults, counts their calls, and restarts them.

use std::time::Duration;

use futures_util::future::try_join_all;
use tonic::Status;
use tonic::transport::Channel;

use super::objects::{BACKEND, GRPC_PORT, pod_name};
use super::pods::Pods;
use crate::backends::{ServiceTime, Stop, Trouble};
use crate::echo::proto::echo_client::EchoClient;
use crate::echo::proto::{CountRequest, ExitRequest};
use crate::error::{Error, Result};

/// Longest wait for the answer to an exit request. A server that exits at once sends no answer.
const EXIT_TIME: Duration = Duration::from_millis(200);

/// The servers of one namespace.
pub(super) struct Servers {
    pods: Pods,
    clients: Vec<EchoClient<Channel>>,
    service_time: ServiceTime,
}

impl Servers {
    pub(super) fn new(pods: Pods, count: usize, service_time: ServiceTime) -> Self {
        let client = |index| EchoClient::new(pods.channel(&pod_name(BACKEND, index), GRPC_PORT));
        let clients = (0..count).map(client).collect();
        Self { pods, clients, service_time }
    }

    /// The names that the servers put into their answers.
    pub(super) fn names(&self) -> Vec<String> {
        (0..self.clients.len()).map(|index| pod_name(BACKEND, index)).collect()
    }

    /// Gives the server at `index` this fault from now on, and makes all others healthy.
    ///
    /// # Errors
    /// If a server does not answer.
    pub(super) async fn set(&self, index: usize, trouble: Trouble) -> Result<()> {
        for number in 0..self.clients.len() {
            self.set_one(number, if number == index { trouble } else { Trouble::NONE }).await?;
        }
        Ok(())
    }

    async fn set_one(&self, index: usize, trouble: Trouble) -> Result<()> {
        let (delay, failure) = trouble.requests(self.service_time);
        let mut client = self.clients[index].clone();
        client.set_delay(delay).await.map_err(|status| refused(index, &status))?;
        client.set_failure(failure).await.map(drop).map_err(|status| refused(index, &status))
    }

    /// For each server, the calls and the messages that it has received since its start.
    ///
    /// # Errors
    /// If a server does not answer.
    pub(super) async fn counts(&self) -> Result<(Vec<u64>, Vec<u64>)> {
        let count = async |(index, client): (usize, &EchoClient<Channel>)| {
            let counted = client.clone().count(CountRequest {}).await;
            let counted = counted.map_err(|status| refused(index, &status))?.into_inner();
            Ok((counted.calls, counted.messages))
        };
        Ok(try_join_all(self.clients.iter().enumerate().map(count)).await?.into_iter().unzip())
    }

    /// Replaces the Pod of the server at `index`, and waits until the new Pod is ready. The new server is healthy.
    ///
    /// # Errors
    /// If the API server rejects a request, or the new Pod is not ready in time.
    pub(super) async fn restart(&self, index: usize, stop: Stop) -> Result<()> {
        if stop == Stop::Abrupt {
            // The server ends before it can answer.
            let exit = async { self.clients[index].clone().exit(ExitRequest {}).await };
            let _ = tokio::time::timeout(EXIT_TIME, exit).await;
        }
        self.pods.replace(&pod_name(BACKEND, index)).await?;
        self.set_one(index, Trouble::NONE).await
    }
}

fn refused(index: usize, status: &Status) -> Error {
    let what = format!("controlling the server {}", pod_name(BACKEND, index));
    Error::Cluster { what, why: status.message().to_owned() }
}
