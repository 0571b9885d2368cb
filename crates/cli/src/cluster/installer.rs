//! The program that installed Leno in a cluster. Messages that suggest a change of the installation take their command
//! from here, because `leno upgrade` refuses to change a release of Helm.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use leno_install::names::{CONFIG, CONTROL_NAMESPACE, HELM_RELEASE};

use super::connect::{Cluster, ClusterError};

/// The command that installs Leno in a cluster without an installation.
pub(crate) const INSTALL: &str = "leno install | kubectl apply -f -";

/// What a command shows in place of a release name that is not a valid name of Helm.
const RELEASE: &str = "RELEASE";

/// Maximum length of the name of a Helm release, in bytes.
const RELEASE_MAX_BYTES: usize = 53;

/// The program that installed Leno.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Installer {
    /// `leno install`. Also assumed if the installation cannot be read.
    #[default]
    Leno,
    /// Helm, with the name of the release.
    Helm(String),
}

impl Installer {
    /// Returns the program that installed the ConfigMap and the Deployment. Helm annotates every object of a release, so
    /// either of the two suffices.
    pub(crate) fn of(config: Option<&ConfigMap>, deployment: Option<&Deployment>) -> Self {
        let objects = [config.map(ResourceExt::annotations), deployment.map(ResourceExt::annotations)];
        let release = objects.into_iter().flatten().find_map(|annotations| annotations.get(HELM_RELEASE));
        match release {
            None => Self::Leno,
            Some(release) if is_name(release) => Self::Helm(release.clone()),
            Some(_) => Self::Helm(RELEASE.to_owned()),
        }
    }

    /// Reads the installer from the cluster. The result only improves a message, so a failed request is ignored.
    pub(crate) async fn read(cluster: &Cluster) -> Self {
        let config: Result<Option<ConfigMap>, ClusterError> =
            cluster.get(cluster.within(CONTROL_NAMESPACE), CONFIG).await;
        Self::of(config.ok().flatten().as_ref(), None)
    }

    /// The command that creates objects that the installation lacks. It also upgrades the installation to the version of
    /// this `leno` or of the chart, and keeps the installation's values.
    pub(crate) fn upgrade(&self) -> String {
        match self {
            Self::Leno => "leno upgrade | kubectl apply -f -".to_owned(),
            Self::Helm(release) => helm_upgrade(release),
        }
    }

    /// The command that changes one value of the installation, for example `control.replicas=3`. The value may have
    /// commas.
    pub(crate) fn set(&self, value: &str) -> String {
        match self {
            Self::Leno => format!("leno upgrade --set {value} | kubectl apply -f -"),
            Self::Helm(release) => {
                // Helm splits the argument at commas, and a shell would remove the backslashes that prevent this.
                let value = match value.contains(',') {
                    true => format!("'{}'", value.replace(',', "\\,")),
                    false => value.to_owned(),
                };
                // Without this flag, Helm would reset all values that the command does not name.
                format!("{} --reset-then-reuse-values --set {value}", helm_upgrade(release))
            }
        }
    }

    /// The command that installs a control plane again, after its Deployment was deleted.
    pub(crate) fn install(&self) -> String {
        match self {
            Self::Leno => INSTALL.to_owned(),
            Self::Helm(_) => self.upgrade(),
        }
    }

    /// Like [`Self::set`], if the installation is not known: the commands for both installers.
    pub(crate) fn set_with_either(value: &str) -> String {
        let helm = Self::Helm(RELEASE.to_owned());
        format!("{}, or on an installation by Helm {}", Self::Leno.set(value), helm.set(value))
    }
}

fn helm_upgrade(release: &str) -> String {
    format!("helm upgrade {release} charts/leno --namespace {CONTROL_NAMESPACE}")
}

/// Whether a text is a name that Helm gives to a release. Users paste the command into a shell.
fn is_name(text: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    (1..=RELEASE_MAX_BYTES).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(is_allowed)
}

#[cfg(test)]
#[path = "installer_tests.rs"]
mod tests;
