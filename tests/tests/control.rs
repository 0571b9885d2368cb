//! Whole-system tests of the control plane: a real `leno-control` beside a real Kubernetes API server.
//!
//! Without a cluster (`tests/kube/build` builds it), the tests print a message and pass.

#[path = "control/api_server.rs"]
mod api_server;
#[path = "control/cli.rs"]
mod cli;
#[path = "control/guard.rs"]
mod guard;
#[path = "control/identity.rs"]
mod identity;
#[path = "control/monitoring.rs"]
mod monitoring;
#[path = "control/objects.rs"]
mod objects;
#[path = "control/proxies.rs"]
mod proxies;
#[path = "control/statuses.rs"]
mod statuses;
#[path = "control/traffic.rs"]
mod traffic;
#[path = "control/webhooks.rs"]
mod webhooks;
