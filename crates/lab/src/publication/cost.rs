//! The price of the proxies, computed from their CPU time and memory, and from assumptions about nodes ([`Prices`]).

use serde::{Deserialize, Serialize};

use crate::experiment::record::Run;
use crate::report::figures;

/// Number of services in the mesh whose monthly price is computed: as many as in the tables of the publication
/// `ladder-2026`.
const SERVICES: f64 = 100.0;
/// The assumption about these services, in words.
pub(super) const COST_OF_SERVICES: &str = "The costs of 100 services assume that the proxies of each service need as much \
    CPU time and memory as all proxies of a run: those of its client and of all its servers. Whichever needs more nodes \
    counts, CPU time or memory.";
/// Hours in a month: 365 × 24 ÷ 12.
const HOURS_PER_MONTH: f64 = 730.0;

/// The size and the price of a node that runs only proxies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct Prices {
    /// CPUs of a node, from which the cost of a mesh is computed
    #[arg(long, value_name = "N", default_value_t = Prices::default().node_vcpus, value_parser = positive)]
    pub node_vcpus: f64,
    /// Memory of a node, in GB, from which the cost of a mesh is computed
    #[arg(long, value_name = "GB", default_value_t = Prices::default().node_memory_gb, value_parser = positive)]
    pub node_memory_gb: f64,
    /// Price of a node, in US dollars a month, from which the cost of a mesh is computed
    #[arg(long, value_name = "USD", default_value_t = Prices::default().node_usd, value_parser = positive)]
    pub node_usd: f64,
}

impl Default for Prices {
    /// Assumes a common node size (4 CPUs, 16 GB) at its usual on-demand price.
    fn default() -> Self {
        Self { node_vcpus: 4.0, node_memory_gb: 16.0, node_usd: 140.0 }
    }
}

impl Prices {
    /// The assumptions in one sentence.
    pub(super) fn sentence(&self) -> String {
        format!(
            "Costs assume nodes of {} vCPUs and {} GB for {} US dollars a month ({HOURS_PER_MONTH} hours), on which nothing but \
             the proxies runs.",
            self.node_vcpus, self.node_memory_gb, self.node_usd
        )
    }
}

/// The price of the CPU time that all proxies need for a billion calls, in US dollars.
pub(super) fn usd_per_billion_calls(run: &Run, prices: &Prices) -> Option<f64> {
    let cpu_hours = run.proxy_cpu_us_per_call? * 1e9 / 1e6 / 3600.0;
    Some(cpu_hours * prices.node_usd / HOURS_PER_MONTH / prices.node_vcpus)
}

/// Number of nodes that the proxies of [`SERVICES`] services need. Assumes that the proxies of each service need as
/// much CPU time and memory as all proxies of `run`.
pub(super) fn nodes(run: &Run, prices: &Prices) -> Option<f64> {
    let by_cpu = figures::millicores(run)? / 1000.0 / prices.node_vcpus;
    let by_memory = figures::loaded_mb(run)? / 1000.0 / prices.node_memory_gb;
    Some((by_cpu.max(by_memory) * SERVICES).ceil())
}

/// The price of the [`nodes`] that `run` implies, in US dollars a month.
pub(super) fn usd_per_month(run: &Run, prices: &Prices) -> Option<f64> {
    Some(nodes(run, prices)? * prices.node_usd)
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("write a number above 0".to_owned()),
    }
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
