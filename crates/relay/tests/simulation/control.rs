//! The control plane of a relay. It knows the whole mesh, and tells the relay only the parts that the relay asks about.
//! It answers after a while, or never. It forgets parts that the relay does not use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_model::discovery::Subject;
use leno_model::mesh::{Changes, ClusterKey, Draft, Mesh, canonical};
use leno_relay::Usage;

use crate::net::Net;
use crate::parts::Part;

/// The namespace of the relay.
const NAMESPACE: &str = "default";

/// Maximum number of questions that wait for an answer, in a simulation in which answers get lost. The control plane
/// refuses further questions.
const QUESTIONS_MAX: usize = 2;

/// A destination of calls.
#[derive(Debug, Clone)]
enum Lead {
    /// The endpoints of a Service's port.
    Cluster(ClusterKey),
    /// A single endpoint of this Service's port.
    Endpoint(ClusterKey),
}

impl Lead {
    fn key(&self) -> &ClusterKey {
        match self {
            Self::Cluster(key) | Self::Endpoint(key) => key,
        }
    }

    /// Returns the Service's port, if calls are balanced over its endpoints.
    fn balanced(&self) -> Option<&ClusterKey> {
        match self {
            Self::Cluster(key) => Some(key),
            Self::Endpoint(_) => None,
        }
    }
}

pub(crate) struct Control {
    whole: Arc<Mesh>,
    /// The part of the mesh that the relay knows.
    draft: Draft,
    answered: BTreeSet<Subject>,
    /// The time of the answer of each open question; `None` for an answer that never comes.
    questions: BTreeMap<Subject, Option<Instant>>,
    /// Longest time from a question to its answer.
    slowest: Duration,
    /// Whether some questions are refused or never answered.
    pub(crate) has_lost_answers: bool,
    /// Time at which the relay is asked which answers it uses; `None` if nothing is forgotten.
    ask_usage_at: Option<Instant>,
    /// The answers that the relay does not use, and the time at which they are forgotten.
    unused: Option<(Instant, Vec<Subject>)>,
    /// Number of answers that were forgotten.
    pub(crate) forgotten: u64,
}

impl Control {
    /// Creates the control plane of a relay that knows nothing yet.
    pub(crate) fn new(whole: Arc<Mesh>, net: &mut Net) -> Self {
        let slowest = if net.random.bool() { 5_000 } else { 1_500_000 };
        let has_lost_answers = net.random.bool() && net.parts.has(Part::LostAnswers);
        let forgets = net.random.bool();
        Self {
            whole,
            draft: Draft::new(NAMESPACE),
            answered: BTreeSet::new(),
            questions: BTreeMap::new(),
            slowest: Duration::from_micros(slowest),
            has_lost_answers,
            ask_usage_at: forgets.then(|| net.now + pause(net)),
            unused: None,
            forgotten: 0,
        }
    }

    /// Returns the part of the mesh that the relay knows.
    pub(crate) fn mesh(&mut self) -> Arc<Mesh> {
        self.draft.take().0
    }

    /// Replaces the whole mesh.
    pub(crate) fn set_mesh(&mut self, whole: Arc<Mesh>) -> (Arc<Mesh>, Changes) {
        self.whole = whole;
        self.update();
        self.draft.take()
    }

    /// Accepts a question. Returns `false` if the control plane refuses it, because too many questions wait.
    pub(crate) fn ask(&mut self, subject: Subject, net: &mut Net) -> bool {
        if self.has_lost_answers && self.questions.len() >= QUESTIONS_MAX {
            return false;
        }
        let is_lost = self.has_lost_answers && net.random.u8(..3) == 0;
        let answer_at = net.now + Duration::from_micros(net.random.u64(..self.slowest.as_micros() as u64));
        self.questions.insert(subject, (!is_lost).then_some(answer_at));
        true
    }

    /// Answers the questions that are due, and forgets the answers that are due to be forgotten. Returns the part of
    /// the mesh that the relay now knows, with the changes; `None` if nothing was due.
    pub(crate) fn advance(&mut self, net: &Net) -> Option<(Arc<Mesh>, Changes)> {
        let is_due = |at: &Option<Instant>| at.is_some_and(|at| at <= net.now);
        let answered: Vec<_> = self.questions.extract_if(.., |_, at| is_due(at)).map(|(subject, _)| subject).collect();
        let unused = self.unused.take_if(|(at, _)| *at <= net.now).map(|(_, subjects)| subjects);
        if answered.is_empty() && unused.is_none() {
            return None;
        }
        self.answered.extend(answered);
        for subject in unused.into_iter().flatten() {
            if self.answered.remove(&subject) {
                self.draft.forget(&subject);
                self.forgotten += 1;
            }
        }
        self.update();
        Some(self.draft.take())
    }

    /// Returns whether the relay must report now which answers it uses.
    pub(crate) fn wants_usage(&self, net: &Net) -> bool {
        self.ask_usage_at.is_some_and(|at| at <= net.now)
    }

    /// Decides to forget some of the answers that are not in use. The relay may use an answer again until it is
    /// forgotten.
    pub(crate) fn take_usage(&mut self, usage: &Usage, net: &mut Net) {
        self.ask_usage_at = Some(net.now + pause(net));
        let mut in_use: BTreeSet<&Subject> = usage.in_use.iter().collect();
        for key in &usage.clusters {
            // A call in flight needs its cluster, so one answer that leads to the cluster must stay.
            let leads = |subject: &&Subject| self.lead(subject).is_some_and(|lead| self.reaches(&lead, key));
            if !in_use.iter().any(leads) {
                in_use.extend(self.answered.iter().find(leads));
            }
        }
        let is_unused = |subject: &&Subject| **subject != Subject::Inbound && !in_use.contains(subject);
        let unused: Vec<_> = self.answered.iter().filter(is_unused).filter(|_| net.random.bool()).cloned().collect();
        if !unused.is_empty() {
            self.unused = Some((net.now + Duration::from_micros(net.random.u64(..5_000)), unused));
        }
    }

    /// Returns the time of the next action.
    pub(crate) fn next(&self) -> Option<Instant> {
        let forget_at = self.unused.as_ref().map(|(at, _)| *at);
        self.questions.values().copied().flatten().chain(self.ask_usage_at).chain(forget_at).min()
    }

    /// Returns the destination to which a subject leads.
    fn lead(&self, subject: &Subject) -> Option<Lead> {
        match subject {
            Subject::Address(address) => {
                let balanced = || Some(Lead::Cluster(self.whole.cluster_by_address(*address)?.key.clone()));
                let single = || Some(Lead::Endpoint(self.whole.endpoint_by_address(*address)?.0.key.clone()));
                balanced().or_else(single)
            }
            Subject::Service(key) => Some(Lead::Cluster(self.whole.cluster(key)?.key.clone())),
            Subject::Inbound => None,
        }
    }

    /// Returns whether calls to `lead` may be sent or copied to the cluster `to`.
    fn reaches(&self, lead: &Lead, to: &ClusterKey) -> bool {
        let routes = lead.balanced().and_then(|key| self.whole.routes(key, NAMESPACE));
        lead.key() == to || routes.is_some_and(|table| table.destinations().any(|key| key == to))
    }

    /// Updates the part of the mesh that the relay knows.
    fn update(&mut self) {
        let leads: Vec<_> = self.answered.iter().map(|subject| (subject.clone(), self.lead(subject))).collect();
        let all_leads = || leads.iter().filter_map(|(_, lead)| lead.as_ref());
        let balanced: BTreeSet<ClusterKey> = all_leads().filter_map(Lead::balanced).cloned().collect();
        let tables = balanced.iter().filter_map(|key| self.whole.routes(key, NAMESPACE));
        let mut wanted: BTreeSet<ClusterKey> = tables.flat_map(|table| table.destinations()).cloned().collect();
        wanted.extend(all_leads().map(|lead| lead.key().clone()));
        let known: BTreeSet<ClusterKey> = self.draft.mesh().clusters().iter().map(|it| it.key.clone()).collect();
        for key in &wanted {
            self.draft.set_cluster(key, self.whole.cluster(key).cloned());
        }
        for key in known.union(&wanted) {
            let table = self.whole.routes(key, NAMESPACE).filter(|_| balanced.contains(key)).cloned();
            self.draft.set_routes(key, NAMESPACE, table);
        }
        for key in known.difference(&wanted) {
            self.draft.forget_cluster(key);
        }
        for key in known.symmetric_difference(&wanted) {
            for (subject, lead) in &leads {
                let Some(lead) = lead.as_ref().filter(|lead| self.reaches(lead, key)) else { continue };
                self.draft.renew_routes(lead.key());
                if lead.key() == key {
                    self.draft.look_again(subject);
                }
            }
        }
        for (subject, lead) in &leads {
            match subject {
                Subject::Address(address) => {
                    let key = lead.as_ref().map(Lead::key);
                    self.draft.set_address(canonical(*address), key, matches!(lead, Some(Lead::Cluster(_))));
                }
                Subject::Service(_) => {}
                Subject::Inbound => self.draft.set_policies(self.whole.policies().to_vec()),
            }
            self.draft.set_answered(subject, true);
        }
    }
}

fn pause(net: &mut Net) -> Duration {
    Duration::from_micros(net.random.u64(..50_000))
}
