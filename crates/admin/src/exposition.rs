//! The two text formats of metrics (Prometheus' own format and OpenMetrics), and how a response's format is chosen.

use std::fmt::Write;

use hyper::header::{ACCEPT, HeaderMap};

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' text format, version 0.0.4, which every scraper supports.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Exposition {
    /// Returns the format that the `Accept` header prefers: OpenMetrics if its quality value is positive and not lower
    /// than the quality value of plain text, otherwise plain text.
    pub fn asked_for(headers: &HeaderMap) -> Self {
        let (mut open_metrics, mut text) = (0.0, 0.0);
        let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        for range in values.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let quality = parts.find_map(|parameter| parameter.strip_prefix("q="));
            let quality = quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0));
            if media_type.eq_ignore_ascii_case("application/openmetrics-text") {
                open_metrics = f32::max(open_metrics, quality);
            } else if media_type.eq_ignore_ascii_case("text/plain") {
                text = f32::max(text, quality);
            }
        }
        if open_metrics > 0.0 && open_metrics >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// Returns the value of the response header `content-type` for this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts OpenMetrics text into this format.
    ///
    /// In OpenMetrics, the HELP and TYPE lines of a counter have its name without a suffix, for example `request`,
    /// while its samples are named `request_total`. In Prometheus' format, these two lines have the name of the
    /// samples, `request_total`. Prometheus' format has no UNIT lines and no EOF line.
    pub fn of_open_metrics(self, text: String) -> String {
        if self == Self::OpenMetrics {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut help: Option<(&str, &str)> = None;
        for line in text.lines() {
            if let Some(described) = line.strip_prefix("# HELP ") {
                help = described.split_once(' ');
            } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' ')) {
                let suffix = if kind == "counter" { "_total" } else { "" };
                let kind = if kind == "unknown" { "untyped" } else { kind };
                if let Some((_, help)) = help.take_if(|(of, _)| *of == name) {
                    let _ = writeln!(out, "# HELP {name}{suffix} {help}");
                }
                let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
            } else if !line.starts_with("# ") {
                out.push_str(line);
                out.push('\n');
            }
        }
        out
    }
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;
