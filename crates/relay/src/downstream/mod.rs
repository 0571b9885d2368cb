//! Connections from clients: from our own application, and from the callers of our application.
//!
//! | file | subject |
//! |---|---|
//! | `downstreams` | the owner of all clients and their accounts |
//! | `client` | a client's connection, from its first call to its end |
//! | `origin`, `declared` | where a connection comes from, and what is declared about its destination |
//! | `accounts` | what each identity or address has in flight, and which connections its calls may use |
//! | `authorize`, `review` | policy: when a call begins, and again when policies change |
//! | `server_first` | guesses that a silent connection is opaque, with a server that speaks first |
//! | `dial_again` | ends connections to an address that has died, so that the application dials a new one |
//! | `share`, `tunnel` | the limits on buffered bytes that all streams of a client or of a tunnel share |

pub(crate) mod accounts;
pub(crate) mod authorize;
pub(crate) mod client;
pub(crate) mod declared;
pub(crate) mod dial_again;
pub(crate) mod downstreams;
pub(crate) mod origin;
pub(crate) mod review;
pub(crate) mod server_first;
pub(crate) mod share;
pub(crate) mod tunnel;
