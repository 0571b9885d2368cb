//! Calls of gRPC methods that the lab was not built with: JSON becomes the request message of a method. The method's
//! descriptor comes from the server's own reflection, or from a file of `protoc`.

mod descriptor_set;
mod method;
mod server;

use std::fmt::Display;

pub(crate) use descriptor_set::read_descriptor_set;
pub(crate) use method::{MethodName, call};
pub(crate) use server::ask_server;

/// Maximum number of names that an error lists. A server may have thousands.
const NAMES_MAX: usize = 20;

/// Lists the first names.
fn list(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let left_out = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    if left_out > 0 {
        names.push(format!("and {left_out} more"));
    }
    if names.is_empty() { "none".to_owned() } else { one_line(names.join(", ")) }
}

/// Text of a peer or of a parser, without line breaks and without codes that would control the terminal.
fn one_line(text: impl Display) -> String {
    text.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
