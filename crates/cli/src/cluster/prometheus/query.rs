//! Queries in PromQL. Prometheus sums over all labels that no table reads, so that the size of an answer depends on the
//! number of rows, and not on the number of Pods.

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
    /// Further labels: the table reads them in addition to [`Wanted::labels`].
    labels: &'static [&'static str],
    /// Further matchers: a series must also match [`Wanted::only`].
    only: &'static [&'static str],
    kind: MetricKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricKind {
    Counter,
    /// A gauge: the table adds up the values of several proxies.
    Gauge,
    /// A gauge of a setting: all proxies have the same value, except for a moment after a change.
    Setting,
}

/// The series that the user chose, and the label that assigns them to rows.
#[derive(Debug)]
pub(super) struct Groups {
    /// The label that names a row's group.
    name_label: &'static str,
    name: Option<String>,
    namespace: Option<String>,
}

impl Metric {
    /// A counter, whose growth the table reads.
    pub(crate) const fn counter(name: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, labels, only: &[], kind: MetricKind::Counter }
    }

    /// A gauge, whose latest value the table reads.
    pub(crate) const fn gauge(name: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, labels, only: &[], kind: MetricKind::Gauge }
    }

    /// A gauge with a setting, which should be the same at all proxies. The table reads the largest value.
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

    /// Returns the query for the number of all targets that could form rows, whatever the user chose.
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
        // A series without these labels belongs to no row.
        let mut matchers = vec![JOB.to_owned(), r#"namespace!="""#.to_owned(), format!(r#"{}!="""#, self.name_label)];
        let chosen = [("namespace", &self.namespace), (self.name_label, &self.name)];
        // The escapes of a JSON string mean the same in PromQL.
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
