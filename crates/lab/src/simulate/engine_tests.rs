//! Tests Leno's policies against simulated servers. A failed test prints its seed.

use leno_model::balance::Policy;

use super::*;
use crate::simulate::server::UNKNOWN;
use crate::simulate::service_time::ServiceTime;
use crate::simulate::tally::max_over_min;

const SEEDS: [u64; 2] = [1, 20];
const BUSY: Load = Load::Open { calls_per_s: 1000.0 };
const CLOSED: Load = Load::Closed { callers: 20 };

fn setup(policy: Policy, servers: Vec<Behaviour>, load: Load, seed: u64) -> Setup {
    let methods = vec![Method::only(ServiceTime::lognormal(9.0))];
    Setup { servers, methods, load, balancer: Kind::Leno(policy), clients: 1, seed }
}

/// Five healthy servers, modified by `change`.
fn five(change: impl FnOnce(&mut [Behaviour])) -> Vec<Behaviour> {
    let mut servers = vec![Behaviour::healthy(32); 5];
    change(&mut servers);
    servers
}

/// Returns a simulation that has run for 15 s: 5 s to settle, and 10 s that its tally covers.
fn measured(policy: Policy, servers: Vec<Behaviour>, load: Load, seed: u64) -> Simulation {
    let mut simulation = Simulation::new(&setup(policy, servers, load, seed));
    simulation.run_for(5.0);
    simulation.measure_for(10.0);
    simulation
}

#[test]
fn equal_endpoints_get_equal_shares() {
    for policy in Policy::ALL {
        for seed in SEEDS {
            for load in [BUSY, CLOSED] {
                let shares = measured(policy, five(|_| {}), load, seed).tally.shares();
                let ratio = max_over_min(&shares);
                assert!(ratio < 1.1, "{policy}, seed {seed}, {load:?}: {shares:?}");
            }
        }
    }
}

#[test]
fn endpoints_with_wildly_varying_latencies_still_get_equal_shares() {
    for seed in SEEDS {
        let mut setup = setup(Policy::Latency, five(|_| {}), BUSY, seed);
        setup.methods = vec![Method::only(ServiceTime::Lognormal { median_ms: 6.0, sigma: 1.0 })];
        let mut simulation = Simulation::new(&setup);
        simulation.run_for(5.0);
        simulation.measure_for(10.0);
        let shares = simulation.tally.shares();
        assert!(max_over_min(&shares) < 1.1, "seed {seed}: {shares:?}");
    }
}

#[test]
fn one_slow_endpoint_is_invisible_at_any_skew() {
    for seed in SEEDS {
        for load in [BUSY, CLOSED] {
            let healthy = measured(Policy::Latency, five(|_| {}), load, seed);
            for skew_ms in [10.0, 50.0, 200.0, 500.0] {
                let servers = five(|servers| servers[2].added_ms = skew_ms);
                let simulation = measured(Policy::Latency, servers, load, seed);
                let share = simulation.tally.shares()[2];
                let p99_ms = simulation.tally.quantile_ms(0.99);
                let case = format!("seed {seed}, {load:?}, skew {skew_ms} ms");
                assert!(share < 0.005, "{case}: share {share}");
                assert!(p99_ms < 1.1 * healthy.tally.quantile_ms(0.99), "{case}: p99 {p99_ms} ms");
            }
        }
    }
}

#[test]
fn one_slow_endpoint_rules_the_p99_of_the_other_policies() {
    for policy in [Policy::LeastRequest, Policy::RoundRobin, Policy::Random] {
        let servers = five(|servers| servers[2].added_ms = 100.0);
        let p99_ms = measured(policy, servers, BUSY, 1).tally.quantile_ms(0.99);
        assert!(p99_ms > 100.0, "{policy}: p99 {p99_ms} ms");
    }
}

#[test]
fn a_slow_endpoint_costs_few_calls_at_low_rates_too() {
    for seed in SEEDS {
        let load = Load::Open { calls_per_s: 100.0 };
        let servers = five(|servers| servers[2].added_ms = 200.0);
        let share = measured(Policy::Latency, servers, load, seed).tally.shares()[2];
        assert!(share < 0.01, "seed {seed}: {share}");
    }
}

#[test]
fn an_endpoint_that_turns_slow_or_silent_is_noticed_at_once() {
    for seed in SEEDS {
        for added_ms in [50.0, 500.0, 1e6] {
            let mut simulation = Simulation::new(&setup(Policy::Latency, five(|_| {}), BUSY, seed));
            simulation.run_for(5.0);
            simulation.behaviour(2).added_ms = added_ms;
            simulation.measure_for(1.0);
            let picks = simulation.tally.picks[2];
            // Without a reaction, the server would get a fifth of the 1,000 calls: 200.
            assert!(picks < 50, "seed {seed}, {added_ms} ms more: {picks} calls");
        }
    }
}

#[test]
fn a_recovered_endpoint_is_noticed_within_5_s() {
    for seed in SEEDS {
        for load in [BUSY, Load::Open { calls_per_s: 50.0 }] {
            for skew_ms in [10.0, 500.0] {
                let servers = five(|servers| servers[2].added_ms = skew_ms);
                let mut simulation = Simulation::new(&setup(Policy::Latency, servers, load, seed));
                simulation.run_for(60.0);
                simulation.behaviour(2).added_ms = 0.0;
                simulation.run_for(5.0);
                let case = format!("seed {seed}, {load:?}, skew {skew_ms} ms");
                assert!(["warming", "ready"].contains(&simulation.state(2)), "{case}");

                simulation.run_for(3.0);
                simulation.measure_for(5.0);
                let share = simulation.tally.shares()[2];
                assert!((0.15..0.25).contains(&share), "{case}: {share}");
            }
        }
    }
}

#[test]
fn failing_fast_does_not_attract_calls() {
    for seed in SEEDS {
        for failing_servers in [1, 3, 4] {
            for failing in [0.3, 1.0] {
                let servers = five(|servers| {
                    let failing_ones = &mut servers[..failing_servers];
                    failing_ones.iter_mut().for_each(|server| server.failing = failing);
                });
                let simulation = measured(Policy::Latency, servers, BUSY, seed);
                let failed = simulation.tally.failed_part();
                let case = format!("seed {seed}, {failing_servers} failing {failing}");
                // The more endpoints are failing, the more often must another fail. Otherwise, the rest could not
                // carry all calls. So the balancer need not find all of several servers that fail a part of their calls.
                // For them, this test shows only that they get no more than equal shares.
                let equal_shares = failing * failing_servers as f64 / 5.0;
                let most = match failing_servers {
                    1 => 0.004,
                    _ if failing < 1.0 => equal_shares,
                    _ => equal_shares / 2.0,
                };
                assert!(failed < most, "{case}: {failed} of calls failed");
            }
        }
    }
}

/// An endpoint that fails at once has the fewest open streams.
#[test]
fn failing_fast_does_not_attract_streams() {
    for seed in SEEDS {
        for failing_from_the_start in [false, true] {
            let mut setup = setup(Policy::Latency, five(|_| {}), Load::Open { calls_per_s: 100.0 }, seed);
            setup.methods = vec![Method { open_s: Some(3600.0), ..Method::only(ServiceTime::lognormal(9.0)) }];
            let mut simulation = Simulation::new(&setup);
            if !failing_from_the_start {
                simulation.run_for(10.0);
            }
            simulation.behaviour(2).failing = 1.0;
            simulation.measure_for(20.0);
            // About 2,000 streams begin. Some reveal the fault, and about ten are probes.
            let failed = simulation.tally.failed_part();
            assert!(failed < 0.03, "seed {seed}, {failing_from_the_start}: {failed} of streams failed");
        }
    }
}

#[test]
fn when_all_fail_alike_no_endpoint_is_left_with_all_the_calls() {
    for seed in SEEDS {
        for failing in [0.1, 0.5, 1.0] {
            let servers = five(|servers| servers.iter_mut().for_each(|server| server.failing = failing));
            let mut simulation = measured(Policy::Latency, servers, BUSY, seed);
            let shares = simulation.tally.shares();
            let most = shares.iter().copied().fold(0.0, f64::max);
            assert!(most < 0.4, "seed {seed}, failing {failing}: {shares:?}");

            (0..5).for_each(|server| simulation.behaviour(server).failing = 0.0);
            simulation.run_for(10.0);
            let ready = (0..5).filter(|server| simulation.state(*server) == "ready").count();
            assert_eq!(ready, 5, "seed {seed}, failing {failing}");
        }
    }
}

/// Lets 30 s pass. Returns the fraction of this time in which an endpoint was failing, on average over five endpoints.
fn failing_part(simulation: &mut Simulation) -> f64 {
    const STEPS: usize = 300;
    let mut failing = 0;
    for _ in 0..STEPS {
        simulation.run_for(0.1);
        failing += (0..5).filter(|server| simulation.state(*server) == "failing").count();
    }
    failing as f64 / (5 * STEPS) as f64
}

/// An application that answers with UNKNOWN because of wrong arguments does so at every endpoint. The time begins with
/// the first call, when the balancer has few outcomes to compare.
#[test]
fn when_the_calls_are_to_blame_no_endpoint_is_failing() {
    for seed in SEEDS {
        for calls_per_s in [5.0, 50.0, 1000.0] {
            for failing in [0.02, 0.05] {
                let servers = five(|servers| {
                    servers.iter_mut().for_each(|server| (server.failing, server.error) = (failing, UNKNOWN));
                });
                let mut simulation =
                    Simulation::new(&setup(Policy::Latency, servers, Load::Open { calls_per_s }, seed));
                let part = failing_part(&mut simulation);
                assert!(part < 0.01, "seed {seed}, {calls_per_s} calls/s, failing {failing}: {part}");
            }
        }
    }
}

/// The application answers one user, who makes a twentieth of the calls, with RESOURCE_EXHAUSTED and pushback.
#[test]
fn a_user_over_its_quota_closes_no_endpoint() {
    for seed in SEEDS {
        for pushback_ms in [1_000.0, 30_000.0] {
            let servers = five(|servers| {
                for server in servers {
                    (server.failing, server.error, server.pushback_ms) = (0.05, 8, Some(pushback_ms));
                }
            });
            let mut simulation = Simulation::new(&setup(Policy::Latency, servers, BUSY, seed));
            let part = failing_part(&mut simulation);
            assert!(part < 0.01, "seed {seed}, pushback {pushback_ms} ms: {part}");
        }
    }
}

#[test]
fn a_new_endpoint_is_neither_flooded_nor_starved() {
    for seed in SEEDS {
        for load in [BUSY, CLOSED, Load::Open { calls_per_s: 50.0 }] {
            let mut simulation = Simulation::new(&setup(Policy::Latency, five(|_| {}), load, seed));
            simulation.set_endpoints(&[0, 1, 2, 3]);
            simulation.run_for(5.0);
            simulation.set_endpoints(&[0, 1, 2, 3, 4]);
            let case = format!("seed {seed}, {load:?}");

            simulation.measure_for(2.0);
            let early = simulation.tally.shares()[4];
            assert!((0.01..0.15).contains(&early), "{case}: {early}");

            simulation.run_for(2.0);
            simulation.measure_for(5.0);
            let later = simulation.tally.shares()[4];
            assert!((0.15..0.25).contains(&later), "{case}: {later}");
        }
    }
}

#[test]
fn removed_endpoints_get_no_calls_and_those_in_flight_end() {
    for policy in Policy::ALL {
        for seed in SEEDS {
            let mut simulation = Simulation::new(&setup(policy, five(|_| {}), CLOSED, seed));
            for removed in 0..5 {
                let others: Vec<usize> = (0..5).filter(|server| *server != removed).collect();
                simulation.set_endpoints(&others);
                // Wait for the calls that began before the removal. Each of them takes less than a second.
                simulation.run_for(1.0);
                simulation.measure_for(1.0);
                let share = simulation.tally.shares()[removed];
                assert!(share == 0.0, "{policy}, seed {seed}: {share}");
            }
            // Replace the closed loop by an open loop at 0 calls per second, so that no new calls begin.
            simulation.load = Load::Open { calls_per_s: 0.0 };
            simulation.run_for(10.0);
            assert!(simulation.open().all(|open| open == 0), "{policy}, seed {seed}");
        }
    }
}

#[test]
fn slow_endpoints_help_when_the_others_alone_cannot_take_the_load() {
    for seed in SEEDS {
        // The five servers can process 2,000 calls/s, and the four fast servers alone 1,600.
        let servers = five(|servers| {
            servers.iter_mut().for_each(|server| server.workers = 4);
            servers[2].added_ms = 50.0;
        });
        let load = Load::Open { calls_per_s: 1850.0 };
        let simulation = measured(Policy::Latency, servers, load, seed);
        let per_s = simulation.tally.answers() as f64 / 10.0;
        let p99_ms = simulation.tally.quantile_ms(0.99);
        assert!(per_s > 1750.0, "seed {seed}: {per_s} calls/s");
        assert!(p99_ms < 300.0, "seed {seed}: p99 {p99_ms} ms");
    }
}

#[test]
fn slow_endpoints_of_a_large_cluster_get_few_calls() {
    for seed in SEEDS {
        let mut servers = vec![Behaviour::healthy(32); 200];
        servers[..20].iter_mut().for_each(|server| server.added_ms = 100.0);
        let load = Load::Open { calls_per_s: 4000.0 };
        let shares = measured(Policy::Latency, servers, load, seed).tally.shares();
        let slow: f64 = shares[..20].iter().sum();
        assert!(slow < 0.005, "seed {seed}: {slow}");
        assert!(max_over_min(&shares[20..]) < 1.5, "seed {seed}: {shares:?}");
    }
}
