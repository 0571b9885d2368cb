//! Selects the workloads for a command: `deploy/web`, `sts`, `pods`, `ns shop`.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::connect::{Cluster, ClusterError};
use super::pods;

/// The kind of object for which a command shows one row each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One row for each workload of this kind. A workload is the object that created the Pods.
    Makers(Maker),
    /// One row for each workload of any kind.
    Workloads,
    Pods,
    Namespaces,
}

/// A kind of object that creates Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maker {
    kind: &'static str,
    /// The names of the kind, as kubectl accepts them.
    names: [&'static str; 3],
}

const MAKERS: [Maker; 4] = [
    Maker { kind: "Deployment", names: ["deploy", "deployment", "deployments"] },
    Maker { kind: "StatefulSet", names: ["sts", "statefulset", "statefulsets"] },
    Maker { kind: "DaemonSet", names: ["ds", "daemonset", "daemonsets"] },
    Maker { kind: "Job", names: ["job", "jobs", "jobs.batch"] },
];

/// A kind, and optionally the name of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
}

/// Options for the namespace.
#[derive(Args)]
pub(crate) struct Scope {
    /// Namespace; default: the kubeconfig's
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
}

/// Options that select workloads; the default is all workloads.
#[derive(Args)]
pub(crate) struct Choice {
    /// deploy, sts, ds, jobs, pods or ns, or one object as deploy/web; default: all workloads
    #[arg(value_name = "KIND[/NAME]")]
    selection: Option<Selection>,
    /// Name of one object
    #[arg(value_name = "NAME", requires = "selection")]
    name: Option<String>,
    #[command(flatten)]
    pub(crate) scope: Scope,
}

/// The Pods of one row of a table.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) namespace: String,
    /// The name of the workload, the Pod or the namespace. Workloads of several kinds may have the same name.
    pub(crate) name: String,
    /// The name to print. If another kind of workload with proxies has the same name, the kind stands before the name:
    /// `deploy/web` and `sts/web`. Do not compare this name with names of Services or with names in metrics.
    pub(crate) shown: String,
    pub(crate) pods: Vec<Pod>,
}

impl Scope {
    /// Selects one namespace; `None` selects the kubeconfig's namespace.
    pub(crate) fn of(namespace: Option<String>) -> Self {
        Self { namespace, all_namespaces: false }
    }

    /// Returns the given options, each after a space, to append to a `leno` command that a message suggests.
    fn options(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!(" -n {namespace}"),
            None if self.all_namespaces => " -A".to_owned(),
            None => String::new(),
        }
    }

    /// The namespace that the user named.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl Choice {
    /// Whether the user gave a selection or a namespace.
    pub(crate) fn is_explicit(&self) -> bool {
        self.selection.is_some() || self.scope.namespace.is_some() || self.scope.all_namespaces
    }

    /// Returns the given selection and options, each after a space, to append to a `leno` command that a message
    /// suggests.
    pub(crate) fn options(&self) -> String {
        let selected = self.selection.as_ref().and_then(|selection| Some((selection.kind.word()?, selection)));
        let selection = selected.map(|(kind, selection)| match selection.name.as_ref().or(self.name.as_ref()) {
            Some(name) => format!(" {kind}/{name}"),
            None => format!(" {kind}"),
        });
        selection.unwrap_or_default() + &self.scope.options()
    }

    /// The selection, or all objects of `kind` if none was given.
    ///
    /// # Errors
    /// If the user gave two names, as `KIND/NAME` and as a separate argument.
    pub(crate) fn or_all(&self, kind: Kind) -> Result<Selection, ClusterError> {
        let all = Selection { kind, name: None };
        self.selection.as_ref().unwrap_or(&all).with_name(self.name.as_ref())
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        let kind = match kind {
            "po" | "pod" | "pods" => Kind::Pods,
            "ns" | "namespace" | "namespaces" => Kind::Namespaces,
            other => match MAKERS.into_iter().find(|maker| maker.names.contains(&other)) {
                Some(maker) => Kind::Makers(maker),
                None => return Err("use deploy, sts, ds, jobs, pods or ns, perhaps with /NAME after it".to_owned()),
            },
        };
        match name {
            Some(name) if name.is_empty() => Err("there is no name after the slash".to_owned()),
            name => Ok(Self { kind, name }),
        }
    }
}

impl Selection {
    /// Adds a name that was given as a separate argument.
    ///
    /// # Errors
    /// If both a `/NAME` and a separate name were given.
    pub(crate) fn with_name(&self, name: Option<&String>) -> Result<Self, ClusterError> {
        match (&self.name, name) {
            (Some(first), Some(second)) => {
                let what = format!("{first} and {second} are two names");
                Err(ClusterError::new(what, "give one, as deploy/web or deploy web"))
            }
            (first, second) => Ok(Self { kind: self.kind, name: first.as_ref().or(second).cloned() }),
        }
    }

    /// Returns the running Pods of the selection in groups, sorted by namespace and name.
    ///
    /// # Errors
    /// If the cluster does not answer, or if the selection names an object, such as `deploy/web`, without running Pods.
    pub(crate) async fn groups(&self, cluster: &Cluster, scope: &Scope) -> Result<Vec<Group>, ClusterError> {
        let groups = self.groups_or_none(cluster, scope).await?;
        match &self.name {
            Some(name) if groups.is_empty() => {
                let namespace = self.namespace(cluster, scope);
                let within = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
                let what = format!("there is no Pod of {} {name}{within}", self.kind.noun());
                Err(ClusterError::new(what, "list Pods with kubectl get pods, and choose the namespace with -n or -A"))
            }
            _ => Ok(groups),
        }
    }

    /// Like [`Self::groups`], but returns no group if the selection names an object without running Pods.
    pub(crate) async fn groups_or_none(&self, cluster: &Cluster, scope: &Scope) -> Result<Vec<Group>, ClusterError> {
        let pods = cluster.within_or_all::<Pod>(self.namespace(cluster, scope));
        Ok(self.group(cluster.list(pods, "").await?))
    }

    /// Returns the namespace of the selection; `None` for all namespaces.
    fn namespace<'a>(&'a self, cluster: &'a Cluster, scope: &'a Scope) -> Option<&'a str> {
        match (&scope.namespace, self.kind) {
            _ if scope.all_namespaces => None,
            (Some(namespace), _) => Some(namespace),
            (None, Kind::Namespaces) => self.name.as_deref(),
            (None, _) => Some(&cluster.namespace),
        }
    }

    fn group(&self, pods: Vec<Pod>) -> Vec<Group> {
        // The Pods by namespace and name, and then by kind of workload.
        let mut found: BTreeMap<(String, String), BTreeMap<String, Vec<Pod>>> = BTreeMap::new();
        for pod in pods.into_iter().filter(pods::is_alive) {
            let namespace = pod.namespace().unwrap_or_default();
            let owner = pods::owner(&pod);
            let (kind, name) = match self.kind {
                Kind::Makers(maker) if !owner.kind.eq_ignore_ascii_case(maker.kind) => continue,
                Kind::Makers(_) | Kind::Workloads => (owner.kind, owner.name),
                Kind::Pods => (String::new(), pod.name_any()),
                Kind::Namespaces => (String::new(), namespace.clone()),
            };
            if self.name.as_ref().is_some_and(|wanted| *wanted != name) {
                continue;
            }
            found.entry((namespace, name)).or_default().entry(kind).or_default().push(pod);
        }
        let mut groups = Vec::new();
        for ((namespace, name), by_kind) in found {
            // A Pod without a proxy, for example of `kubectl run web`, must not change the name of the workload `web`.
            let is_meshed = |pods: &[Pod]| pods.iter().any(pods::is_meshed);
            let meshed = by_kind.values().filter(|pods| is_meshed(pods)).count();
            groups.extend(by_kind.into_iter().map(|(kind, pods)| {
                let is_ambiguous = meshed > usize::from(is_meshed(&pods));
                let shown = if is_ambiguous { format!("{}/{name}", word(&kind)) } else { name.clone() };
                Group { namespace: namespace.clone(), name: name.clone(), shown, pods }
            }));
        }
        groups
    }
}

/// Returns the word with which users select a kind of workload. Some kinds have none; for them, returns the kind.
fn word(kind: &str) -> &str {
    let maker = MAKERS.into_iter().find(|maker| maker.kind.eq_ignore_ascii_case(kind));
    maker.map_or(kind, |maker| maker.names[0])
}

impl Kind {
    /// Returns a word with which users select the kind; `None` for workloads of any kind, the default.
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Makers(Maker { names: [word, ..], .. }) => Some(word),
            Self::Workloads => None,
            Self::Pods => Some("pods"),
            Self::Namespaces => Some("ns"),
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Makers(maker) => maker.kind,
            Self::Workloads => "workload",
            Self::Pods => "the name",
            Self::Namespaces => "namespace",
        }
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
