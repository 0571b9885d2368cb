//! The controller of a Pod: the object that creates the Pod, such as a Deployment.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::object::is_dns_subdomain;

/// The controller of a Pod, as users know it. For a Pod of a Deployment, this is the Deployment, not its ReplicaSet.
/// Written as `deployment/cart`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Controller {
    pub kind: ControllerKind,
    pub name: Box<str>,
}

/// The kinds of controllers that have labels in metrics: the same kinds as in Linkerd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerKind {
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
}

/// The error of parsing a text that is not a [`Controller`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAController;

/// Number of digits at the end of a Job's name if a CronJob created the Job. The digits are a time since 1970, in
/// minutes or in seconds.
const CRON_JOB_DIGITS: std::ops::RangeInclusive<usize> = 8..=10;

impl ControllerKind {
    const ALL: [Self; 7] = [
        Self::CronJob,
        Self::DaemonSet,
        Self::Deployment,
        Self::Job,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::StatefulSet,
    ];

    /// The kind, as Kubernetes objects contain it.
    fn kubernetes(self) -> &'static str {
        match self {
            Self::CronJob => "CronJob",
            Self::DaemonSet => "DaemonSet",
            Self::Deployment => "Deployment",
            Self::Job => "Job",
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
            Self::StatefulSet => "StatefulSet",
        }
    }

    /// The kind in lower case, as kubectl accepts it.
    pub fn name(self) -> &'static str {
        match self {
            Self::CronJob => "cronjob",
            Self::DaemonSet => "daemonset",
            Self::Deployment => "deployment",
            Self::Job => "job",
            Self::ReplicaSet => "replicaset",
            Self::ReplicationController => "replicationcontroller",
            Self::StatefulSet => "statefulset",
        }
    }
}

impl Controller {
    /// Returns the controller of a Pod whose owner has this kind and name. `None` if the kind is not a
    /// [`ControllerKind`].
    ///
    /// The owner may itself belong to another controller, which is then returned:
    /// - A ReplicaSet belongs to a Deployment if its name ends with `template_hash`, the Pod's label
    ///   `pod-template-hash`.
    /// - A Job belongs to a CronJob if its name ends with a time.
    pub fn of_pod(kind: &str, name: &str, template_hash: Option<&str>) -> Option<Self> {
        let kind = ControllerKind::ALL.into_iter().find(|known| known.kubernetes() == kind)?;
        let (kind, name) = match kind {
            ControllerKind::ReplicaSet => match template_hash.and_then(|hash| deployment_of(name, hash)) {
                Some(deployment) => (ControllerKind::Deployment, deployment),
                None => (kind, name),
            },
            ControllerKind::Job => match cron_job_of(name) {
                Some(cron_job) => (ControllerKind::CronJob, cron_job),
                None => (kind, name),
            },
            _ => (kind, name),
        };
        Some(Self { kind, name: name.into() })
    }
}

/// Returns the name of the Deployment to which a ReplicaSet belongs. `template_hash` is the label `pod-template-hash`
/// of the ReplicaSet's Pods. `None` if the name of the ReplicaSet does not end with this hash.
pub fn deployment_of<'a>(replica_set: &'a str, template_hash: &str) -> Option<&'a str> {
    replica_set.strip_suffix(template_hash)?.strip_suffix('-')
}

fn cron_job_of(job: &str) -> Option<&str> {
    let (name, time) = job.rsplit_once('-')?;
    let is_time = CRON_JOB_DIGITS.contains(&time.len()) && time.bytes().all(|byte| byte.is_ascii_digit());
    (is_time && !name.is_empty()).then_some(name)
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.name)
    }
}

impl FromStr for Controller {
    type Err = NotAController;

    fn from_str(text: &str) -> Result<Self, NotAController> {
        let (kind, name) = text.split_once('/').ok_or(NotAController)?;
        let kind = ControllerKind::ALL.into_iter().find(|known| known.name() == kind).ok_or(NotAController)?;
        if !is_dns_subdomain(name) {
            return Err(NotAController);
        }
        Ok(Self { kind, name: name.into() })
    }
}

impl Serialize for Controller {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
