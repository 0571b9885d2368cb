//! Writes queries in PromQL. They let Prometheus sum over all labels that no table reads, so that the size of an answer
//! depends on the number of rows, not on the number of Pods.

use std::fmt;
use std::time::Duration;

use leno_model::settings::format_duration;
use serde_json::Value;

use crate::cluster::select::{Kind, Selection};

/// The job of the proxies. The chart's PodMonitor and docs/monitoring/prometheus.yml give the job this name.
const JOB: &str = r#"job="leno-proxy""#;

/// The metrics and labels that a table reads.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Labels that the table reads for every metric.
    pub(crate) labels: &'static [&'static str],
    /// Matchers for every metric, for example `direction="inbound"`.
    pub(crate) only: &'static [&'static str],
    pub(crate) metrics: &'static [Metric],
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    name: &'static str,
    /// Labels that the table reads for this metric, in addition to [`Wanted::labels`].
    labels: &'static [&'static str],
    /// Matchers for the series of this metric, in addition to [`Wanted::only`].
    only: &'static [&'static str],
    kind: MetricKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricKind {
    Counter,
    /// A gauge: the table adds up the values of several proxies.
    Gauge,
    /// A gauge that shows a setting. All proxies have the same value, except for a moment after the setting changes.
    Setting,
}

/// The user's selection of series, and the label that assigns each series to a row.
#[derive(Debug)]
pub(super) struct Groups {
    /// The label that assigns a series to a row, and whose value is the row's name. One of `workload`, `pod` and
    /// `namespace`.
    name_label: &'static str,
    name: Option<String>,
    namespace: Option<String>,
}

impl Metric {
    /// Describes a counter: the query returns the counter's growth within the window.
    pub(crate) const fn counter(name: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, labels, only: &[], kind: MetricKind::Counter }
    }

    /// Describes a gauge: the query returns the gauge's latest value.
    pub(crate) const fn gauge(name: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, labels, only: &[], kind: MetricKind::Gauge }
    }

    /// Describes a gauge that shows a setting. All proxies should have the same value; the query returns the largest.
    pub(crate) const fn setting(name: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, labels, only: &[], kind: MetricKind::Setting }
    }

    /// Restricts the metric to the series that match all of `only`.
    pub(crate) const fn only(self, only: &'static [&'static str]) -> Self {
        Self { only, ..self }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    #[cfg(test)]
    pub(super) fn labels(&self) -> &'static [&'static str] {
        self.labels
    }

    #[cfg(test)]
    pub(super) fn matchers(&self) -> &'static [&'static str] {
        self.only
    }

    pub(super) fn is_counter(&self) -> bool {
        self.kind == MetricKind::Counter
    }
}

impl Groups {
    pub(super) fn of(selection: &Selection, namespace: Option<&str>) -> Self {
        let name_label = match selection.kind {
            Kind::Makers(_) | Kind::Workloads => "workload",
            Kind::Pods => "pod",
            Kind::Namespaces => "namespace",
        };
        Self { name_label, name: selection.name.clone(), namespace: namespace.map(str::to_owned) }
    }

    /// Returns the query for the number of targets of each group. The targets are the Pods that have a proxy.
    pub(super) fn count(&self) -> String {
        format!("count by ({}) (up{{{}}})", self.by(&[]), self.matchers(&[]))
    }

    /// Returns the query for the number of all proxies that Prometheus scrapes, regardless of the user's selection.
    pub(super) fn any() -> String {
        format!(r#"count(up{{{JOB},namespace!="",workload!=""}})"#)
    }

    /// Returns the query for the growth of a counter within the last `window`, or for the latest value of a gauge.
    pub(super) fn query(&self, wanted: &Wanted, metric: &Metric, window: Duration) -> String {
        let by = self.by(&[wanted.labels, metric.labels].concat());
        let series = format!("{}{{{}}}", metric.name, self.matchers(&[wanted.only, metric.only].concat()));
        match metric.kind {
            MetricKind::Counter => format!("sum by ({by}) (increase({series}[{}]))", format_duration(window)),
            MetricKind::Gauge => format!("sum by ({by}) ({series})"),
            MetricKind::Setting => format!("max by ({by}) ({series})"),
        }
    }

    /// Returns the namespace and the name of the group to which a series with these labels belongs.
    pub(super) fn key(&self, labels: &[(String, String)]) -> (String, String) {
        let label = |name: &str| labels.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        (label("namespace").unwrap_or_default(), label(self.name_label).unwrap_or_default())
    }

    fn by(&self, labels: &[&str]) -> String {
        let own: &[&str] =
            if self.name_label == "namespace" { &["namespace"] } else { &["namespace", self.name_label] };
        [own, labels].concat().join(", ")
    }

    fn matchers(&self, only: &[&str]) -> String {
        // Exclude series without a namespace or a name: they belong to no row.
        let mut matchers = vec![JOB.to_owned(), r#"namespace!="""#.to_owned(), format!(r#"{}!="""#, self.name_label)];
        let chosen = [("namespace", &self.namespace), (self.name_label, &self.name)];
        // Write the value as a JSON string: PromQL understands the same escapes.
        let equal = |(label, value): (&str, &Option<String>)| {
            value.as_ref().map(|value| format!("{label}={}", Value::from(value.as_str())))
        };
        matchers.extend(chosen.into_iter().filter_map(equal));
        matchers.extend(only.iter().map(|matcher| (*matcher).to_owned()));
        matchers.join(",")
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        let within = self.namespace.as_deref().map(|namespace| format!(" in namespace {namespace}"));
        write!(f, "{}{name} with a proxy{}", self.name_label, within.unwrap_or_default())
    }
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
