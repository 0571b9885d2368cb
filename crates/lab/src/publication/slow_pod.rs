//! Buoyant's comparison of gRPC load balancing with one slow pod: Kubernetes alone, and five configurations of meshes.

use crate::experiment::record::TargetKind::{Ambient, CiliumL4, CiliumL7, Istio, LenoMesh, Linkerd, Vanilla};
use crate::report::Statistic;
use crate::report::figures::{cpu_us, rps};

use super::cost::usd_per_billion_calls;
use super::definition::Published::Exactly;
use super::definition::Value::{Added, Cost, Deviation, Mean, Over};
use super::definition::{At, Column, Condition, Headline, Publication, Step, Table};

const P50: At = At::latency("slow-pod", Statistic::P50);
const P99: At = At::latency("slow-pod", Statistic::P99);
const RPS: At = At::new("slow-pod", rps);
const MORE: At = At::latency("connections", Statistic::P99).slow_ms(50);

const P99_SLOW_50: Column =
    Column::less("50 ms slower", "p99 with one pod 50 ms slower", "ms", Mean(P99.slow_ms(50))).by_luck().theirs(&[
        (Vanilla, Exactly(71.7)),
        (CiliumL4, Exactly(69.5)),
        (Ambient, Exactly(70.8)),
        (CiliumL7, Exactly(107.6)),
        (Istio, Exactly(87.9)),
        (Linkerd, Exactly(66.6)),
    ]);

pub(super) const PUBLICATION: Publication = Publication {
    who: "Buoyant, June 2026: gRPC load balancing under a slow pod, in six conditions",
    source: "https://www.buoyant.io/blog/benchmarking-grpc-load-balancing-on-kubernetes-linkerd-vs-istio-vs-cilium-under-a-slow-pod",
    load: "1 connection with 200 gRPC calls in flight to five pods; one pod is slower by 0, 50 or 200 ms; then 2, 4 and 8 \
           connections",
    conditions: &[
        Condition { target: Vanilla, name: "Kubernetes alone" },
        Condition { target: CiliumL4, name: "Cilium L4" },
        Condition { target: Ambient, name: "Istio ambient with a waypoint" },
        Condition { target: CiliumL7, name: "Cilium L7" },
        Condition { target: Istio, name: "Istio sidecar" },
        Condition { target: Linkerd, name: "Linkerd" },
        Condition { target: LenoMesh, name: "Leno" },
    ],
    steps: &[
        Step {
            name: "slow-pod",
            quick: "slow-pod --connections 1 --skew-ms 0,50,200 --duration-s 5 --warm-up-s 2 --repeat 3",
            full: "slow-pod --connections 1 --skew-ms 0,50,200 --duration-s 60 --warm-up-s 10 --repeat 10",
        },
        Step {
            name: "connections",
            quick: "connections --connections 2,4,8 --skew-ms 50 --duration-s 5 --warm-up-s 2 --repeat 1",
            full: "connections --connections 2,4,8 --skew-ms 50 --duration-s 60 --warm-up-s 10 --repeat 10",
        },
    ],
    tables: &[
        Table {
            title: "p99, ms",
            base: Istio,
            columns: &[
                Column::less("all pods alike", "p99 with all pods alike", "ms", Mean(P99)).theirs(&[
                    (Vanilla, Exactly(65.5)),
                    (CiliumL4, Exactly(71.1)),
                    (Ambient, Exactly(75.3)),
                    (CiliumL7, Exactly(72.6)),
                    (Istio, Exactly(49.6)),
                    (Linkerd, Exactly(30.1)),
                ]),
                P99_SLOW_50,
                Column::less("200 ms slower", "p99 with one pod 200 ms slower", "ms", Mean(P99.slow_ms(200)))
                    .by_luck()
                    .theirs(&[(CiliumL7, Exactly(247.0)), (Istio, Exactly(226.0)), (Linkerd, Exactly(29.0))]),
            ],
        },
        Table {
            title: "Calls per second, and failed calls",
            base: Istio,
            columns: &[
                Column::more("all pods alike", "calls per second with all pods alike", "/s", Mean(RPS)),
                Column::more("50 ms slower", "calls per second with one pod 50 ms slower", "/s", Mean(RPS.slow_ms(50)))
                    .by_luck()
                    .theirs(&[
                        (Vanilla, Exactly(7817.0)),
                        (CiliumL4, Exactly(7837.0)),
                        (Ambient, Exactly(7797.0)),
                        (CiliumL7, Exactly(4100.0)),
                        (Istio, Exactly(5515.0)),
                        (Linkerd, Exactly(9588.0)),
                    ]),
                Column::more(
                    "200 ms slower",
                    "calls per second with one pod 200 ms slower",
                    "/s",
                    Mean(RPS.slow_ms(200)),
                )
                .by_luck(),
                Column::less(
                    "failed, 50 ms slower, %",
                    "failed calls with one pod 50 ms slower",
                    "%",
                    Mean(At::errors("slow-pod").slow_ms(50)),
                ),
            ],
        },
        Table {
            title: "p50 and its deviation over the repeats, ms",
            base: Istio,
            columns: &[
                Column::less("p50, all pods alike", "p50 with all pods alike", "ms", Mean(P50)),
                Column::less("p50, 50 ms slower", "p50 with one pod 50 ms slower", "ms", Mean(P50.slow_ms(50)))
                    .by_luck(),
                Column::less(
                    "deviation, 50 ms slower",
                    "deviation of the p50 with one pod 50 ms slower",
                    "ms",
                    Deviation(P50.slow_ms(50)),
                )
                .neutral(),
            ],
        },
        Table {
            title: "Scorecard: the condition beside itself with all pods alike",
            base: Istio,
            columns: &[
                Column::less(
                    "p99, 50 ms slower",
                    "growth of the p99 with one pod 50 ms slower",
                    "×",
                    Over(P99.slow_ms(50), P99),
                )
                .by_luck()
                .green(1.1)
                .theirs(&[
                    (Vanilla, Exactly(71.7 / 65.5)),
                    (CiliumL4, Exactly(69.5 / 71.1)),
                    (Ambient, Exactly(70.8 / 75.3)),
                    (CiliumL7, Exactly(107.6 / 72.6)),
                    (Istio, Exactly(87.9 / 49.6)),
                    (Linkerd, Exactly(66.6 / 30.1)),
                ]),
                Column::less(
                    "p99, 200 ms slower",
                    "growth of the p99 with one pod 200 ms slower",
                    "×",
                    Over(P99.slow_ms(200), P99),
                )
                .by_luck()
                .green(1.1)
                .theirs(&[
                    (CiliumL7, Exactly(247.0 / 72.6)),
                    (Istio, Exactly(226.0 / 49.6)),
                    (Linkerd, Exactly(29.0 / 30.1)),
                ]),
                Column::more(
                    "calls per second, 50 ms slower",
                    "calls per second that remain with one pod 50 ms slower",
                    "×",
                    Over(RPS.slow_ms(50), RPS),
                )
                .by_luck()
                .green(0.9),
            ],
        },
        Table {
            title: "p99 with more connections and one pod 50 ms slower, ms",
            base: Istio,
            columns: &[
                Column::less("2", "p99 over 2 connections with one pod 50 ms slower", "ms", Mean(MORE.connections(2)))
                    .by_luck(),
                Column::less("4", "p99 over 4 connections with one pod 50 ms slower", "ms", Mean(MORE.connections(4)))
                    .by_luck(),
                Column::less("8", "p99 over 8 connections with one pod 50 ms slower", "ms", Mean(MORE.connections(8)))
                    .by_luck(),
            ],
        },
        Table {
            title: "Overhead, and the cost to serve",
            base: Istio,
            columns: &[
                Column::less("p50 above Kubernetes alone, ms", "p50 above Kubernetes alone", "ms", Added(P50, Vanilla)),
                Column::less("p99 above Kubernetes alone, ms", "p99 above Kubernetes alone", "ms", Added(P99, Vanilla)),
                Column::less(
                    "CPU of the proxies per call, µs",
                    "CPU time of the proxies per call",
                    "µs",
                    Mean(At::cpu("slow-pod", cpu_us)),
                ),
                Column::less(
                    "CPU of a billion calls, USD",
                    "price of the proxies' CPU time for a billion calls",
                    "USD",
                    Cost(At::cpu("slow-pod", cpu_us), usd_per_billion_calls),
                ),
            ],
        },
    ],
    headline: Headline {
        begin: "With one of five pods 50 ms slower, 99 of 100 calls took at most",
        column: P99_SLOW_50,
    },
    never_shown: &[
        "eBPF, WireGuard and the CNI of Cilium: the kernel's netfilter stands for layer 4, and a stock Envoy for layer 7.",
        "Istio ambient as published: its figures resemble the figures of conditions that balance connections. A stock \
         installation has no waypoint: two ztunnels balance connections, and no call pays for a third proxy. The lab does not \
         measure it. The lab's ambient has a waypoint, which balances calls. Its version names what was measured: ztunnel, or a bare \
         TLS tunnel in place of ztunnel.",
        "The memory of control planes in the cost to serve.",
    ],
    quick_leaves_out: &[
        "Runs of 5 s in place of 60 s.",
        "3 repeats in place of 10, and one repeat with 2, 4 and 8 connections. So few repeats may miss the case that a \
         condition which balances connections chooses the slow pod.",
    ],
    full_keeps: "10 repeats of 60 s, as published.",
};
