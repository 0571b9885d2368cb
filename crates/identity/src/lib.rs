//! Workload identity.
#![forbid(unsafe_code)]
