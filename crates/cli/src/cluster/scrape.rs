//! Parses metrics pages in Prometheus' text format or in OpenMetrics.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Smallest mean that is kept, in calls per second; a smaller one becomes 0. It is below one call in 5 min, the longest
/// window of `leno problems`.
const MEAN_LEAST: f64 = 0.001;

/// Name of the metric with the time at which the process of a proxy started. [`Scrape::since`] needs it.
const START_TIME: &str = "process_start_time_seconds";

/// Number of texts of a series for which the parser reserves memory: the metric's name, and the names and values of ten
/// labels.
const PARTS: usize = 21;

/// The samples of one page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrape {
    samples: Vec<Sample>,
}

/// One value of a series.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    series: Series,
    pub(crate) value: f64,
}

/// The name of a metric, and the name and value of each label, stored in a single text. 200 proxies have half a million
/// samples with ten labels each, so allocating and comparing each label separately would take most of a command's time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Series {
    text: String,
    /// The byte index in `text` at which each name and each value ends.
    ends: Vec<usize>,
}

impl Scrape {
    /// Parses a page; skips lines that are not samples.
    pub(crate) fn parse(text: &str) -> Self {
        Self { samples: text.lines().filter_map(sample).collect() }
    }

    /// Parses only the samples whose names begin with one of `prefixes`, and [`START_TIME`]. Faster than
    /// [`Self::parse`] if few samples match.
    pub(crate) fn parse_only(text: &str, prefixes: &[&str]) -> Self {
        let is_wanted =
            |line: &&str| prefixes.iter().any(|prefix| line.starts_with(prefix)) || line.starts_with(START_TIME);
        Self { samples: text.lines().filter(is_wanted).filter_map(sample).collect() }
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, name: &str, labels: &[(String, String)], value: f64) {
        let mut series = Series::default();
        series.push(name);
        for (key, value) in labels {
            series.push(key);
            series.push(value);
        }
        self.samples.push(Sample { series, value });
    }

    /// Returns the samples with the name `name` that have all of `labels`.
    pub(crate) fn all<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.is_of(name) && labels.iter().all(|(key, value)| sample.label(key) == *value))
    }

    /// Returns the sum of the samples with the name `name` that have all of `labels`.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        // Do not use `Iterator::sum`: without samples it returns -0.0, which is printed with its sign.
        self.all(name, labels).fold(0.0, |sum, sample| sum + sample.value)
    }

    /// Returns the growth of each counter since an earlier page of the same proxy. If the proxy has restarted since,
    /// all counters grew from 0. A single counter that is smaller than before began again, so it grew from 0, too.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let empty = Self::default();
        // After a restart, compare no counter with its value before, not even a counter that has become larger:
        // otherwise, the ratio of two counters would be wrong.
        let earlier = if self.is_of_same_process(earlier) { earlier } else { &empty };
        let grown = |(sample, before): (&Sample, Option<f64>)| {
            let before = before.unwrap_or(0.0);
            let value = if sample.value < before { sample.value } else { sample.value - before };
            Sample { value, ..sample.clone() }
        };
        Self { samples: self.samples.iter().zip(self.values_in(earlier)).map(grown).collect() }
    }

    /// Whether the process that wrote this page also wrote `earlier`. Assumes so if a page lacks [`START_TIME`].
    fn is_of_same_process(&self, earlier: &Self) -> bool {
        let [now, before] = [self, earlier].map(|page| page.all(START_TIME, &[]).next().map(|sample| sample.value));
        now.zip(before).is_none_or(|(now, before)| now == before)
    }

    /// Returns a mean: `weight` times these values plus `1 - weight` times the values of `earlier`. A sample that only
    /// `earlier` has counts as 0 here: a proxy that has restarted lacks the series that it has not counted in yet. A
    /// mean below [`MEAN_LEAST`] becomes 0, so that a moving mean without new calls does not decrease forever, and a
    /// sample that only `earlier` has ends.
    pub(crate) fn mixed(mut self, earlier: &Self, weight: f64) -> Self {
        let before = self.values_in(earlier);
        let fading = earlier.samples.iter().zip(earlier.values_in(&self)).filter_map(|(sample, here)| {
            let mean = sample.value * (1.0 - weight);
            (here.is_none() && mean >= MEAN_LEAST).then(|| Sample { value: mean, ..sample.clone() })
        });
        let fading: Vec<Sample> = fading.collect();
        for (sample, before) in self.samples.iter_mut().zip(before) {
            let mean = sample.value * weight + before.unwrap_or(0.0) * (1.0 - weight);
            sample.value = if mean < MEAN_LEAST { 0.0 } else { mean };
        }
        self.samples.extend(fading);
        self
    }

    /// Returns, for each sample, the value of the same sample in `other`, or `None` if `other` lacks the sample. Builds
    /// a table of `other`'s samples only if the order differs: mostly, all pages of a proxy have the same samples in
    /// the same order.
    fn values_in(&self, other: &Self) -> Vec<Option<f64>> {
        let mut table: Option<HashMap<&Series, f64>> = None;
        let value = |(place, sample): (usize, &Sample)| {
            let is_same = |there: &&Sample| there.series == sample.series;
            if let Some(there) = other.samples.get(place).filter(is_same) {
                return Some(there.value);
            }
            let table =
                table.get_or_insert_with(|| other.samples.iter().map(|there| (&there.series, there.value)).collect());
            table.get(&sample.series).copied()
        };
        self.samples.iter().enumerate().map(value).collect()
    }

    /// Multiplies all values by `factor`.
    pub(crate) fn times(mut self, factor: f64) -> Self {
        self.samples.iter_mut().for_each(|sample| sample.value *= factor);
        self
    }

    /// Returns the value of a sample, in seconds since 1970, as a time.
    pub(crate) fn time(&self, name: &str) -> Option<SystemTime> {
        let seconds = self.all(name, &[]).next()?.value;
        UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }
}

impl Sample {
    /// Whether this is a sample of the metric with this name.
    fn is_of(&self, name: &str) -> bool {
        self.series.parts().next() == Some(name)
    }

    /// The value of a label; empty if the label is missing, which means the same to Prometheus.
    pub(crate) fn label(&self, name: &str) -> &str {
        let mut parts = self.series.parts().skip(1);
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            if key == name {
                return value;
            }
        }
        ""
    }
}

impl Series {
    fn push(&mut self, part: &str) {
        self.text.push_str(part);
        self.end_part();
    }

    fn end_part(&mut self) {
        self.ends.push(self.text.len());
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        let mut begin = 0;
        self.ends.iter().map(move |&end| self.text.get(std::mem::replace(&mut begin, end)..end).unwrap_or_default())
    }
}

fn sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let name_end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(name_end)?;
    let mut series = Series { text: String::with_capacity(line.len()), ends: Vec::with_capacity(PARTS) };
    series.push(name);
    let rest = match rest.strip_prefix('{') {
        Some(rest) => labels(rest, &mut series)?,
        None => rest,
    };
    // Take the first word only: a timestamp or an exemplar may follow the value.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { series, value })
}

/// Parses the labels of a line, `key="value",...}`, into `series`, and returns the rest of the line.
fn labels<'a>(mut rest: &'a str, series: &mut Series) -> Option<&'a str> {
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(rest) = rest.strip_prefix('}') {
            return Some(rest);
        }
        let (key, after) = rest.split_once("=\"")?;
        series.push(key);
        rest = quoted(after, &mut series.text)?;
        series.end_part();
    }
}

/// Appends a label's value to `into`, with its escapes decoded. `text` begins after the opening quote. Returns the rest
/// of the line after the closing quote.
fn quoted<'a>(text: &'a str, into: &mut String) -> Option<&'a str> {
    let (value, after) = text.split_once('"')?;
    if !value.contains('\\') {
        into.push_str(value);
        return Some(after);
    }
    let mut letters = text.chars();
    loop {
        match letters.next()? {
            '"' => return Some(letters.as_str()),
            '\\' => into.push(match letters.next()? {
                'n' => '\n',
                other => other,
            }),
            letter => into.push(letter),
        }
    }
}

#[cfg(test)]
#[path = "scrape_tests.rs"]
mod tests;
