//! A Prometheus scrape, and queries on it.

/// The samples of one scrape.
#[derive(Debug, Clone)]
pub struct Scrape {
    samples: Vec<Sample>,
}

#[derive(Debug, Clone)]
struct Sample {
    name: String,
    labels: String,
    value: f64,
}

impl Scrape {
    /// Parses Prometheus' text format; skips comments and lines of other forms.
    pub fn parse(text: &str) -> Self {
        Self { samples: text.lines().filter_map(sample).collect() }
    }

    /// Returns the sum of all series of `name` whose labels contain every one of `labels`, such as `kind="ping"`.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let wanted = |sample: &&Sample| sample.name == name && labels.iter().all(|label| sample.labels.contains(label));
        self.samples.iter().filter(wanted).map(|sample| sample.value).sum()
    }

    /// Returns whether there is any series of `name`.
    pub fn has(&self, name: &str) -> bool {
        self.samples.iter().any(|sample| sample.name == name)
    }
}

fn sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some(Sample { name: name.to_owned(), labels: labels.to_owned(), value: value.parse().ok()? })
}
