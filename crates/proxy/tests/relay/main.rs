//! A worker between clients and servers that are scripted byte by byte: its reaction to unusual peers.

mod answers;
mod chaos;
mod closing;
mod discovery;
mod dismissal;
mod fairness;
mod http1;
mod limits;
mod mirrors;
mod peer;
mod places;
mod pool;
mod proxy;
mod routes;
mod waiting;
