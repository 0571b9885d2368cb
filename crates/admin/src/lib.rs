//! The admin endpoint and the log of Leno's long-running programs: the proxy and the control plane. The log levels can
//! be changed while the program runs.
//!
//! ```
//! use leno_admin::answer;
//!
//! let answer = answer::json(&serde_json::json!({"ready": true}));
//! assert_eq!((answer.status().as_u16(), &answer.headers()["content-type"]), (200, &"application/json".parse()?));
//! let refused = answer::for_this_machine("/config");
//! assert_eq!(refused.status(), 403);
//!
//! let levels: leno_admin::logging::LogFilter = "info,leno_proxy=debug".parse()?;
//! assert_eq!(levels.to_string(), "info,leno_proxy=debug");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod answer;
mod content;
mod exposition;
pub mod logging;
mod server;

pub use content::Content;
pub use exposition::Exposition;
pub use server::{CONNECTIONS_MAX, ReachedAt, serve, serve_behind_proxy};
