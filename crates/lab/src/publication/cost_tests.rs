use super::*;
use crate::experiment::record::{Footprint, TargetKind};
use crate::report::example::run;

const PRICES: Prices = Prices { node_vcpus: 4.0, node_memory_gb: 16.0, node_usd: 146.0 };

#[test]
fn cpu_time_has_the_price_of_its_part_of_a_node() {
    // A billion calls at 3.6 us each use one hour of a CPU, and a CPU costs 146 / 730 / 4 dollars an hour.
    let run = Run { proxy_cpu_us_per_call: Some(3.6), ..run(TargetKind::LenoMesh, 0, 1) };
    let usd = usd_per_billion_calls(&run, &PRICES).expect("a proxy");
    assert!((usd - 0.05).abs() < 1e-9, "{usd}");
    assert_eq!(usd_per_billion_calls(&Run { proxy_cpu_us_per_call: None, ..run }, &PRICES), None);
}

#[test]
fn memory_or_cpu_whichever_is_scarcer_decides_the_number_of_nodes() {
    let run = |us, bytes| Run {
        rps: 1000.0,
        proxy_cpu_us_per_call: Some(us),
        footprint: Some(Footprint { loaded_bytes: bytes, ..Footprint::default() }),
        ..run(TargetKind::LenoMesh, 0, 1)
    };
    // 100 services with 0.1 CPUs each need 10 CPUs: 2.5 nodes, rounded up to 3.
    assert_eq!(nodes(&run(100.0, 1_000_000), &PRICES), Some(3.0));
    // 100 services with 0.8 GB each need 80 GB: 5 nodes.
    assert_eq!(nodes(&run(100.0, 800_000_000), &PRICES), Some(5.0));
    assert_eq!(usd_per_month(&run(100.0, 800_000_000), &PRICES), Some(730.0));
}

#[test]
fn a_price_is_above_zero() {
    assert_eq!(positive("0.5"), Ok(0.5));
    for wrong in ["0", "-1", "inf", "NaN", "cheap"] {
        assert!(positive(wrong).is_err(), "{wrong}");
    }
}
