//! Experiments: real proxies between a load and real servers, run after run, and what came of them.

pub mod record;
