//! Calls of gRPC methods whose `.proto` files were not compiled into the lab. The lab encodes a method's request from
//! JSON. The method's descriptor comes from the server's reflection, or from a file that `protoc` wrote.

mod descriptor_set;
mod method;
mod server;

use std::fmt::Display;

pub(crate) use descriptor_set::read_descriptor_set;
pub(crate) use method::{MethodName, call};
pub(crate) use server::ask_server;

/// Maximum number of names that an error lists. A server may have thousands of services.
const NAMES_MAX: usize = 20;

/// Lists at most [`NAMES_MAX`] names, and then the number of further names.
fn list(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let left_out = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    if left_out > 0 {
        names.push(format!("and {left_out} more"));
    }
    if names.is_empty() { "none".to_owned() } else { one_line(names.join(", ")) }
}

/// Replaces control characters by spaces. The text comes from a peer or a parser; it must stay one line and must not
/// control the terminal.
fn one_line(text: impl Display) -> String {
    text.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
