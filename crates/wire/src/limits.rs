//! How much of a control plane's answer is read. What is beyond is an error, not cut off.

/// Bytes of one resource.
pub const RESOURCE_MAX_BYTES: usize = 16 << 20;
/// Endpoints of one cluster, ready or not.
pub const ENDPOINTS_MAX: usize = 100_000;
/// Addresses of one Service.
pub const CLUSTER_IPS_MAX: usize = 16;
/// Bytes of a resource's name, asked for or sent.
pub const NAME_MAX_BYTES: usize = 512;
/// Matches in the routes of one cluster, and what is done with the rest.
pub const ROUTES_MAX: usize = leno_model::route::ENTRIES_MAX + 1;
/// Policies that select one workload.
pub const POLICIES_MAX: usize = 10_000;
