//! Parses the lines that a proxy's tap sends: a call, or the number of calls that the proxy left out.

use std::fmt::Write;

use leno_model::traffic::GrpcCodes;
use serde_json::{Map, Value};

use crate::cluster::printable::{line, service_account};

/// One line that a proxy's tap sends.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// Number of calls that matched the selection, but that the proxy left out.
    Dropped(u64),
    Call(Call),
}

/// A call that has ended, with the fields of the proxy's access log.
#[derive(Debug, PartialEq)]
pub(super) struct Call(Map<String, Value>);

impl Event {
    /// Parses a line; `None` if the line is not a JSON object.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return None };
        match fields.get("dropped").and_then(Value::as_u64) {
            Some(count) => Some(Self::Dropped(count)),
            None => Some(Self::Call(Call(fields))),
        }
    }
}

impl Call {
    fn text_of(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Formats the call as one line for users, with a further line for each header field. `proxy` is the name of the
    /// reporting proxy's Pod, or of its workload if it has no Pod.
    pub(super) fn text(&self, proxy: &str) -> String {
        let time = self.text_of("time").split(['T', 'Z']).nth(1).unwrap_or_default();
        let is_inbound = self.text_of("direction") == "inbound";
        let method = match (self.text_of("method"), self.text_of("path")) {
            ("POST", path) if self.0.contains_key("grpc_status") => path.strip_prefix('/').unwrap_or(path).to_owned(),
            ("", _) => self.text_of("protocol").to_owned(),
            (method, path) => format!("{method} {path}"),
        };
        let peer = if is_inbound {
            format!("from {}", who(self.text_of("client_id"), self.text_of("client")))
        } else {
            format!("to {}", who(self.text_of("server_id"), self.text_of("server")))
        };
        let side = if is_inbound { "in " } else { "out" };
        let ms = self.0.get("duration_ms").and_then(Value::as_f64).unwrap_or_default();
        let mut text = format!("{time} {side} {proxy}  {method}  {peer}  {}  {ms:.1} ms", self.status());
        for (field, label) in
            [("retries", "retries"), ("hedges", "hedges"), ("route", "route"), ("proxy_error", "proxy error")]
        {
            match self.0.get(field) {
                Some(Value::String(value)) => drop(write!(text, "  {label} {value}")),
                Some(value) => drop(write!(text, "  {label} {value}")),
                None => {}
            }
        }
        let mut text = line_of(&text);
        for (field, sign) in [("request_headers", '>'), ("response_headers", '<'), ("response_trailers", '<')] {
            for pair in self.0.get(field).and_then(Value::as_array).into_iter().flatten() {
                let name = pair.get(0).and_then(Value::as_str).unwrap_or_default();
                let value = pair.get(1).and_then(Value::as_str).unwrap_or_default();
                text.push_str(&line_of(&format!("    {sign} {name}: {value}")));
            }
        }
        text
    }

    /// The gRPC status by name, if the call has one, else the HTTP status.
    fn status(&self) -> String {
        let number = |field: &str| self.0.get(field).and_then(Value::as_u64);
        match (number("grpc_status"), number("status")) {
            (Some(code), _) => {
                let name = u8::try_from(code).ok().and_then(GrpcCodes::name);
                name.map_or_else(|| format!("grpc-status {code}"), str::to_owned)
            }
            (None, Some(status)) => status.to_string(),
            (None, None) => "no answer".to_owned(),
        }
    }

    /// Formats the call as one line of JSON: the fields that the proxy sent, and the names of its workload and of its
    /// Pod.
    pub(super) fn json(mut self, workload: &str, pod: Option<&str>) -> String {
        self.0.insert("workload".to_owned(), workload.into());
        self.0.extend(pod.map(|pod| ("pod".to_owned(), pod.into())));
        ascii(&Value::Object(self.0).to_string()) + "\n"
    }
}

/// Escapes all characters except printable ASCII, because a terminal may interpret others as commands. The proxy has
/// escaped its texts in the same way.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            ' '..='~' => text.push(letter),
            _ => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    text
}

/// Names the peer of a call: `namespace/service account (address)`, or only the address if the peer has no SPIFFE id.
fn who(id: &str, address: &str) -> String {
    match service_account(id) {
        Some(account) => format!("{account} ({address})"),
        None if address.is_empty() => "nowhere".to_owned(),
        None => address.to_owned(),
    }
}

/// Makes a text safe to print in one line. Keeps the double spaces between columns, which [`line()`] would remove.
fn line_of(text: &str) -> String {
    text.split("  ").map(line).collect::<Vec<_>>().join("  ") + "\n"
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
