//! Parses metrics pages in Prometheus' text format or in OpenMetrics.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Smallest value of a moving mean, in calls a second.
const MEAN_LEAST: f64 = 0.001;

/// The samples of one page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrape {
    samples: Vec<Sample>,
}

/// The name and the labels of a series.
type Series<'a> = (&'a str, &'a [(String, String)]);

/// One value of a series.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

impl Scrape {
    /// Parses a page; skips lines of other forms.
    pub(crate) fn parse(text: &str) -> Self {
        Self { samples: text.lines().filter_map(sample).collect() }
    }

    /// Parses the samples whose names begin with one of the `prefixes`. This is faster than [`Self::parse`] if they are
    /// few of many.
    pub(crate) fn parse_only(text: &str, prefixes: &[&str]) -> Self {
        let is_wanted = |line: &&str| prefixes.iter().any(|prefix| line.starts_with(prefix));
        Self { samples: text.lines().filter(is_wanted).filter_map(sample).collect() }
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, name: &str, labels: Vec<(String, String)>, value: f64) {
        self.samples.push(Sample { name: name.to_owned(), labels, value });
    }

    /// The samples of this name that have all these labels.
    pub(crate) fn all<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.name == name && labels.iter().all(|(key, value)| sample.label(key) == *value))
    }

    /// The sum of the samples of this name that have all these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        // `Iterator::sum` of no floats is -0.0, which prints with its sign.
        self.all(name, labels).fold(0.0, |sum, sample| sum + sample.value)
    }

    /// The growth of each counter since an earlier page of the same Pod. A counter that shrank has restarted from 0.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let grown = |(sample, before): (&Sample, f64)| {
            let value = if sample.value < before { sample.value } else { sample.value - before };
            Sample { value, ..sample.clone() }
        };
        Self { samples: self.samples.iter().zip(self.values_in(earlier)).map(grown).collect() }
    }

    /// A moving mean: `weight` of these values, and the rest of the values of `earlier`. A mean below [`MEAN_LEAST`]
    /// becomes 0, so that a mean without new calls ends.
    pub(crate) fn mixed(mut self, earlier: &Self, weight: f64) -> Self {
        let before = self.values_in(earlier);
        for (sample, before) in self.samples.iter_mut().zip(before) {
            let mean = sample.value * weight + before * (1.0 - weight);
            sample.value = if mean < MEAN_LEAST { 0.0 } else { mean };
        }
        self
    }

    /// The value in `other` for each sample; 0 for a sample that `other` lacks. Pages of one proxy mostly have the same
    /// samples in the same order, so the table of all samples is made only when the orders differ.
    fn values_in(&self, other: &Self) -> Vec<f64> {
        let mut table: Option<HashMap<Series<'_>, f64>> = None;
        let value = |(place, sample): (usize, &Sample)| {
            let is_same = |there: &&Sample| there.name == sample.name && there.labels == sample.labels;
            if let Some(there) = other.samples.get(place).filter(is_same) {
                return there.value;
            }
            let table = table.get_or_insert_with(|| {
                other.samples.iter().map(|there| ((&*there.name, &*there.labels), there.value)).collect()
            });
            table.get(&(&*sample.name, &*sample.labels)).copied().unwrap_or(0.0)
        };
        self.samples.iter().enumerate().map(value).collect()
    }

    /// All values multiplied by `factor`.
    pub(crate) fn times(mut self, factor: f64) -> Self {
        self.samples.iter_mut().for_each(|sample| sample.value *= factor);
        self
    }

    /// A sample in seconds since 1970, as a time.
    pub(crate) fn time(&self, name: &str) -> Option<SystemTime> {
        let seconds = self.all(name, &[]).next()?.value;
        UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }
}

impl Sample {
    /// The value of a label. Empty if the label is missing: for Prometheus, a missing label equals an empty one.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

fn sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let name_end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(name_end)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    // A timestamp or an exemplar may follow.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Parses `key="value",...}`, and returns the rest of the line.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.push((key.to_owned(), value));
        rest = after;
    }
}

/// Parses up to the closing quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    loop {
        match letters.next()? {
            (at, '"') => return Some((value, text.get(at + 1..)?)),
            (_, '\\') => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            (_, letter) => value.push(letter),
        }
    }
}

#[cfg(test)]
#[path = "scrape_tests.rs"]
mod tests;
