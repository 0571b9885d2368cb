//! Gateway API routes: find the rule for a request or a connection, and apply it.
//!
//! This module is pure: it uses no sockets and no clock, and random numbers are arguments. A [`RouteTable`] has all
//! rules for calls to one cluster, in order of precedence. To find a rule, it scans the entries up to the first match.
//! [`status`] describes the result for each route.

mod filter;
#[cfg(test)]
pub(crate) mod fixtures;
mod matching;
mod mismatch;
mod path;
mod pattern;
mod precedence;
mod re2;
mod redirect;
mod rewrite;
mod rule;
mod server_name;
mod size;
pub mod status;
mod table;

pub use filter::{Filters, Header, HeaderModifier, Mirror};
pub use matching::{HeaderMatch, Match, QueryMatch, RequestHead, ValueMatch};
pub use path::{GrpcMethod, PathMatch};
pub use pattern::{Pattern, PatternError};
pub use precedence::{Candidate, Seniority};
pub use redirect::{Redirect, Scheme};
pub use rewrite::{PathRewrite, Rewrite};
pub use rule::{Backend, BackendTarget, RouteKind, RouteName, Rule};
pub use server_name::ServerName;
pub use size::{ENTRIES_MAX, TABLE_MAX_BYTES};
pub use table::{Entry, Found, RouteTable};
