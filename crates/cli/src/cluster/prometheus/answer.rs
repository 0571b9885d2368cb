//! Parses the answer to a query: an instant vector in the JSON of Prometheus' HTTP API. Limits the number of series,
//! the number of labels of a series, and the length of error and warning texts.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Maximum number of series in an answer.
pub(super) const SERIES_MAX: usize = 100_000;
/// Maximum number of labels of a series. No table reads more than 16 labels.
const LABELS_MAX: usize = 32;
/// Maximum number of warnings that the parser keeps from one answer.
const WARNINGS_MAX: usize = 100;
/// Maximum length of the text of an error or of a warning, in characters.
const TEXT_MAX: usize = 300;
/// Error message for too many series. [`Answer::parse`] recognizes the error by this text in serde_json's message.
const TOO_MANY: &str = "too many series";

/// The result of a query.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) series: Vec<Series>,
    /// Reasons why the result may be incomplete.
    pub(super) warnings: Vec<String>,
}

/// One series of an answer: its labels and its value.
#[derive(Debug, PartialEq)]
pub(super) struct Series {
    pub(super) labels: Vec<(String, String)>,
    /// Finite, at least 0.
    pub(super) value: f64,
}

/// The reason why a query has no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The text is not JSON of Prometheus' HTTP API.
    NotPrometheus,
    /// Prometheus has refused the query, for this reason.
    Refused(String),
    TooManySeries,
}

#[derive(Deserialize)]
struct Reply {
    status: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    warnings: Texts,
    /// VictoriaMetrics sets this field if a part of its storage has not answered.
    #[serde(default, rename = "isPartial")]
    is_partial: bool,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    result_type: String,
    result: Vector,
}

#[derive(Deserialize)]
struct Element {
    metric: Labels,
    /// The time, and the value as text. `None` for a native histogram, which has the field `histogram` instead.
    value: Option<(IgnoredAny, String)>,
}

#[derive(Default)]
struct Vector(Vec<Series>);

#[derive(Default)]
struct Labels(Vec<(String, String)>);

#[derive(Default)]
struct Texts(Vec<String>);

impl Answer {
    /// Reads the content of a response. Omits series whose value is not a count: not a number, infinite or negative.
    pub(super) fn parse(content: &[u8]) -> Result<Self, NoAnswer> {
        let reply: Reply = serde_json::from_slice(content).map_err(|error| {
            if error.to_string().contains(TOO_MANY) { NoAnswer::TooManySeries } else { NoAnswer::NotPrometheus }
        })?;
        let mut warnings = reply.warnings.0;
        if reply.is_partial {
            warnings.push("the result is partial".to_owned());
        }
        match (reply.status.as_str(), reply.data) {
            ("success", Some(data)) if data.result_type == "vector" => Ok(Self { series: data.result.0, warnings }),
            ("error", _) => Err(NoAnswer::Refused(short(&reply.error))),
            _ => Err(NoAnswer::NotPrometheus),
        }
    }
}

/// Truncates a text to [`TEXT_MAX`] characters.
pub(super) fn short(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de> Visitor<'de> for Vector {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Self, A::Error> {
        let mut count = 0;
        while let Some(Element { metric, value }) = elements.next_element()? {
            count += 1;
            if count > SERIES_MAX {
                return Err(de::Error::custom(TOO_MANY));
            }
            let value = value.and_then(|(_, value)| value.parse().ok());
            if let Some(value) = value.filter(|value: &f64| value.is_finite() && *value >= 0.0) {
                self.0.push(Series { labels: metric.0, value });
            }
        }
        Ok(self)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Labels {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut labels: A) -> Result<Self, A::Error> {
        while let Some(label) = labels.next_entry()? {
            if self.0.len() == LABELS_MAX {
                return Err(de::Error::custom("too many labels"));
            }
            self.0.push(label);
        }
        Ok(self)
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de> Visitor<'de> for Texts {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut texts: A) -> Result<Self, A::Error> {
        while let Some(text) = texts.next_element::<String>()? {
            if self.0.len() < WARNINGS_MAX {
                self.0.push(short(&text));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
