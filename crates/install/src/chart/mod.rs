//! The objects of an installation, rendered from charts/leno: the same templates that Helm renders.
//!
//! `values` merges values.yaml with the user's values. [`objects`] checks the result with the schema, and `template`
//! renders the objects from it. The renderer supports the part of Helm's language that the chart uses and rejects
//! everything else. A test compares its output with Helm's.

mod template;
mod values;

use serde_json::{Map, Value, json};

use crate::inject;
use crate::names::{CONFIG, CONTROL_NAMESPACE, POD_SECURITY};
use crate::schema;
use crate::yaml::{self, Fault};

pub use template::TemplateError;
pub use values::{ValueError, merge};

const VALUES: &str = include_str!("../../../../charts/leno/values.yaml");
const HA_VALUES: &str = include_str!("../../../../charts/leno/values-ha.yaml");
const SCHEMA: &str = include_str!("../../../../charts/leno/values.schema.json");
const CHART: &str = include_str!("../../../../charts/leno/Chart.yaml");
/// The chart's custom resource definitions, each with its file's name.
const CRDS: [(&str, &str); 2] = [
    ("authorizationpolicies.yaml", include_str!("../../../../charts/leno/crds/authorizationpolicies.yaml")),
    ("trafficpolicies.yaml", include_str!("../../../../charts/leno/crds/trafficpolicies.yaml")),
];
/// The files of the chart that its templates insert with `.Files.Get`.
const FILES: [(&str, &str); 4] = [
    ("files/rules.yaml", include_str!("../../../../charts/leno/files/rules.yaml")),
    ("files/dashboards/workloads.json", include_str!("../../../../charts/leno/files/dashboards/workloads.json")),
    ("files/dashboards/methods.json", include_str!("../../../../charts/leno/files/dashboards/methods.json")),
    ("files/dashboards/control.json", include_str!("../../../../charts/leno/files/dashboards/control.json")),
];
/// The chart's templates, in the order in which to apply their objects.
const TEMPLATES: [(&str, &str); 6] = [
    ("rbac.yaml", include_str!("../../../../charts/leno/templates/rbac.yaml")),
    ("control.yaml", include_str!("../../../../charts/leno/templates/control.yaml")),
    ("network.yaml", include_str!("../../../../charts/leno/templates/network.yaml")),
    ("webhooks.yaml", include_str!("../../../../charts/leno/templates/webhooks.yaml")),
    ("guard.yaml", include_str!("../../../../charts/leno/templates/guard.yaml")),
    ("monitoring.yaml", include_str!("../../../../charts/leno/templates/monitoring.yaml")),
];

/// The reason why the chart could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChartError {
    #[error("{0}")]
    Value(#[from] ValueError),
    /// A template fails with these values.
    #[error("{file}: {error}")]
    Template { file: String, error: TemplateError },
    /// A file of the chart, or a template's output, is not YAML.
    #[error("{file}: {fault}")]
    Yaml { file: String, fault: Fault },
    /// The values give the injector options that the control plane would reject.
    #[error("{0}")]
    Options(String),
}

/// Returns the default values or, with `is_ha`, the values for production.
///
/// # Errors
/// [`ChartError`] if the embedded chart itself is broken; a test rules that out.
pub fn default_values(is_ha: bool) -> Result<Value, ChartError> {
    let mut values = read("values.yaml", VALUES)?;
    if is_ha {
        merge(&mut values, read("values-ha.yaml", HA_VALUES)?);
    }
    Ok(values)
}

/// Sets one value, for example `control.replicas=3`; text needs no quotes.
///
/// # Errors
/// If the text is not NAME=VALUE. [`objects`] checks the name and the value.
pub fn set_value(values: &mut Value, text: &str) -> Result<(), ChartError> {
    Ok(values::set(values, &read("values.schema.json", SCHEMA)?, text)?)
}

/// Returns every object of an installation: the namespace, the custom resource definitions, then the objects of the
/// templates.
///
/// # Errors
/// If a value is invalid.
pub fn objects(values: &Value) -> Result<Vec<Value>, ChartError> {
    inject::check_values(values).map_err(|bad| ChartError::Options(bad.to_string()))?;
    let schema = read("values.schema.json", SCHEMA)?;
    if let Some(violation) = schema::check(&schema, values).into_iter().next() {
        return Err(ValueError::Schema(violation).into());
    }
    let is_meshed = values["control"]["meshed"] == true;
    let mut objects = vec![namespace(is_meshed)];
    for (file, text) in CRDS {
        objects.push(read(file, text)?);
    }
    let chart = read("Chart.yaml", CHART)?;
    let context = json!({
        "Values": values,
        "Release": {"Namespace": CONTROL_NAMESPACE},
        "Files": Map::from_iter(FILES.map(|(name, text)| (name.to_owned(), text.into()))),
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
    });
    for (file, text) in TEMPLATES {
        let rendered =
            template::render(text, &context).map_err(|error| ChartError::Template { file: file.to_owned(), error })?;
        let documents = yaml::split(&rendered).map_err(|fault| ChartError::Yaml { file: file.to_owned(), fault })?;
        objects.extend(documents.into_iter().map(|document| document.value).filter(|value| !value.is_null()));
    }
    check_options(&objects)?;
    Ok(objects)
}

/// Reads the injector's options as the control plane will read them, because the schema cannot express all conditions.
fn check_options(objects: &[Value]) -> Result<(), ChartError> {
    let config = objects.iter().find(|object| object["kind"] == "ConfigMap" && object["metadata"]["name"] == CONFIG);
    let text = config.and_then(|config| config["data"]["inject.yaml"].as_str()).unwrap_or_default();
    inject::Options::read(text).map(drop).map_err(|error| ChartError::Options(error.to_string()))
}

/// Returns the namespace of the control plane. No template contains it, because Helm's `--create-namespace` creates it.
/// Its Pod security level is the strictest one (restricted). If the control plane's Pods have a proxy, the level is the
/// least strict one (privileged), which leno-init needs.
fn namespace(is_meshed: bool) -> Value {
    let pod_security = if is_meshed { "privileged" } else { "restricted" };
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": CONTROL_NAMESPACE,
            "labels": {
                "app.kubernetes.io/part-of": "leno",
                POD_SECURITY: pod_security,
            },
        },
    })
}

fn read(file: &str, text: &str) -> Result<Value, ChartError> {
    yaml::read(text).map_err(|fault| ChartError::Yaml { file: file.to_owned(), fault })
}

#[cfg(test)]
mod monitoring_tests;
#[cfg(test)]
mod tests;
