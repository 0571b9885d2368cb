//! Limits on a control plane's resources. A resource over a limit is an error; it is not truncated.

/// Maximum size of a resource, in bytes.
pub const RESOURCE_MAX_BYTES: usize = 16 << 20;
/// Limit on the number of endpoints of one cluster, ready or not.
pub const ENDPOINTS_MAX: usize = 100_000;
/// Limit on the number of addresses of one Service.
pub const CLUSTER_IPS_MAX: usize = 16;
/// Maximum length of the name of a resource, in requests and responses, in bytes.
pub const NAME_MAX_BYTES: usize = 512;
/// Limit on the number of matches in the routes of one cluster, plus one entry for requests without a match.
pub const ROUTES_MAX: usize = leno_model::route::ENTRIES_MAX + 1;
/// Limit on the number of policies that select one workload.
pub const POLICIES_MAX: usize = 10_000;
