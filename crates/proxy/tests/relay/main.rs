//! The reaction of a worker to unusual peers: its clients and servers are scripted byte by byte.

mod answers;
mod attempts;
mod closing;
mod discovery;
mod dismissal;
mod fairness;
mod hedging;
mod http1;
mod limits;
mod memory;
mod methods;
mod mirrors;
mod open_calls;
mod peer;
mod places;
mod policies;
mod pool;
mod proxy;
mod retries;
mod routes;
mod trailers;
mod unretried;
mod waiting;
