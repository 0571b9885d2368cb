//! The targets of calls: the mesh, the clusters in use, and the endpoint of each attempt.
//!
//! | file | subject |
//! |---|---|
//! | `targets` | the owner of the mesh and of all clusters in use |
//! | `cluster` | one cluster: its endpoints, their balancer and their pools |
//! | `create` | creates the state of a target at the first call, and removes the state of idle addresses |
//! | `find` | which cluster does a call belong to? |
//! | `routes`, `filter` | which rule matches the call, what is its backend, and how does it change the call? |
//! | `balance` | begins an attempt: which connections may it use, and which endpoint does `model::balance` choose? |
//! | `methods` | which methods of a cluster have metrics of their own? |
//! | `discover`, `usage` | questions to the control plane, and which answers are in use |
//! | `change` | applies a new mesh |
//! | `ports` | which ports of our application appear in metrics |
//! | `readiness` | how many endpoints take calls, for metrics |
//! | `explain`, `hedge_delays` | the state of clusters, for `/balancer` |

pub(crate) mod balance;
pub(crate) mod budget;
pub(crate) mod change;
pub(crate) mod cluster;
pub(crate) mod create;
pub(crate) mod discover;
pub(crate) mod explain;
pub(crate) mod filter;
pub(crate) mod find;
pub(crate) mod hedge_delays;
pub(crate) mod methods;
pub(crate) mod ports;
pub(crate) mod readiness;
pub(crate) mod request_head;
pub(crate) mod routes;
pub(crate) mod targets;
pub(crate) mod usage;
