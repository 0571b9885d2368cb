//! Operation of Leno's long-running programs, the data plane and the control plane: the admin endpoint, and a log whose
//! levels can be changed while the program runs.
#![forbid(unsafe_code)]

pub mod answer;
mod exposition;
pub mod logging;
mod server;

pub use exposition::Exposition;
pub use server::{CONNECTIONS_MAX, serve};
