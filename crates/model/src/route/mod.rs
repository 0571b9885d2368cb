//! Gateway API routes: which rule a request or a connection meets, and what the rule does to it.
//!
//! Pure: no sockets, no clock, and randomness is an argument. A [`RouteTable`] has every rule that calls to one cluster
//! can meet, in order of precedence; finding one is a scan that stops at the first match. [`status`] says what became
//! of each route.

mod filter;
#[cfg(test)]
pub(crate) mod fixtures;
mod matching;
mod path;
mod pattern;
mod precedence;
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
pub use rule::{Backend, BackendTarget, RouteKind, RouteName, Rule, Timeouts};
pub use server_name::ServerName;
pub use size::{ENTRIES_MAX, TABLE_MAX_BYTES};
pub use table::{Entry, Found, RouteTable};
