//! The access log's writer. A worker's lines go to the writer thread once in each turn of the worker's loop. A worker
//! never waits: lines that do not fit into the writer's buffer are dropped and counted.

#[cfg(test)]
mod fixtures;
mod outlet;
mod writer;

pub use outlet::Outlet;
pub use writer::{Destination, Writer};
