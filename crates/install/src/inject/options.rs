//! An installation's settings for all of its proxies, and the file inject.yaml that holds them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::installation;
use super::settings::{BadSetting, Settings};
use crate::yaml::{self, Fault};

/// An installation's settings for all of its proxies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Options {
    pub cluster_domain: String,
    /// The trust domain of all identities of the mesh.
    pub trust_domain: String,
    /// Annotations that only a namespace may have. If the cluster asks for injection
    /// ([`ByAnnotation`](super::Asked::ByAnnotation)), the injector rejects a Pod with such an annotation, unless the
    /// value equals the namespace's value.
    pub namespace_only: Vec<String>,
    /// Namespaces whose Pods the API server does not send to the injector. The injector does not need this list. The
    /// control plane's reports need it, because they must not claim that a Pod in such a namespace lacks a proxy.
    pub excluded_namespaces: Vec<String>,
    /// The default settings of a proxy, before annotations change them.
    pub proxy: Settings,
    /// The version of the injector, if `proxy.version` may be another version, as with `leno inject --proxy-version`.
    /// `None` in a cluster: there, the injector is the control plane, and its image has the tag `proxy.version` too.
    #[serde(skip)]
    pub injector_version: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        let usual = || "cluster.local".to_owned();
        Self {
            cluster_domain: usual(),
            trust_domain: usual(),
            namespace_only: Vec::new(),
            excluded_namespaces: Vec::new(),
            proxy: Settings::default(),
            injector_version: None,
        }
    }
}

/// The reason why the options cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BadOptions {
    #[error("{0}")]
    NotYaml(#[from] Fault),
    /// The YAML has an unknown field, or a field has a value of a wrong type.
    #[error("{0}")]
    Form(#[from] serde_json::Error),
    #[error("{0}")]
    Setting(#[from] BadSetting),
}

impl Options {
    /// Reads the content of inject.yaml, and checks the domains and the settings of proxies. The settings must pass the
    /// same checks as annotations. Without these checks, one character that leno-init or leno-proxy cannot parse would
    /// stop every new Pod of the mesh.
    ///
    /// # Errors
    /// [`BadOptions`] if the text is not YAML, or if a field or its value is unknown.
    pub fn read(text: &str) -> Result<Self, BadOptions> {
        Self::of_value(yaml::read(text)?)
    }

    /// Like [`read`](Self::read), but leaves out unknown fields, and returns their names. A newer version may have
    /// written these fields.
    ///
    /// # Errors
    /// [`BadOptions`] if the text is not YAML, or if a value is invalid.
    pub fn read_known(text: &str) -> Result<(Self, Vec<String>), BadOptions> {
        let mut value = yaml::read(text)?;
        let mut unknown = Vec::new();
        remove_unknown(&mut value, &serde_json::to_value(Self::default())?, "", &mut unknown);
        Ok((Self::of_value(value)?, unknown))
    }

    /// The version of the injector.
    pub(super) fn own_version(&self) -> &str {
        self.injector_version.as_deref().unwrap_or(&self.proxy.version)
    }

    fn of_value(value: Value) -> Result<Self, BadOptions> {
        let mut options: Self = serde_json::from_value(value)?;
        installation::check_domains(&options.cluster_domain, &options.trust_domain)?;
        options.proxy = options.proxy.checked()?;
        Ok(options)
    }
}

/// Removes the fields that `known` does not have, and adds their names to `unknown`. `path` is empty, or a field's name
/// followed by a dot.
fn remove_unknown(value: &mut Value, known: &Value, path: &str, unknown: &mut Vec<String>) {
    let (Value::Object(fields), Value::Object(known)) = (value, known) else { return };
    fields.retain(|name, value| match known.get(name) {
        Some(known) => {
            remove_unknown(value, known, &format!("{path}{name}."), unknown);
            true
        }
        None => {
            unknown.push(format!("{path}{name}"));
            false
        }
    });
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
