//! Connections to endpoints: the pools of these connections, and the attempts that wait for a connection.
//!
//! | file | subject |
//! |---|---|
//! | `pools` | the owner of all pools, connections and queues |
//! | `hop` | how a call travels to an endpoint, and so which pool it may use |
//! | `connections`, `waiting` | the connections and the queue of one pool |
//! | `connect` | opens, replaces and ends connections |
//! | `upstream` | one connection: from its first packet until calls may use it, and whether it has room for a call |
//! | `liveness` | whether the server of a connection is still there |
//! | `cancel` | calls that have ended while their server still works on them |
//! | `answered` | calls that have ended while their server has not accepted the whole request |
//! | `dribble` | request content that arrives a few bytes at a time |

pub(crate) mod answered;
pub(crate) mod cancel;
pub(crate) mod connect;
pub(crate) mod connections;
pub(crate) mod dribble;
pub(crate) mod hop;
pub(crate) mod liveness;
pub(crate) mod pools;
pub(crate) mod upstream;
pub(crate) mod waiting;
