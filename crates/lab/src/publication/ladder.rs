//! Istio and Linkerd at a ladder of rates, with Fortio as the load.

use crate::experiment::record::TargetKind::{Direct, Istio, LenoMesh, Linkerd};
use crate::report::Statistic;
use crate::report::figures::{idle_mb_per_proxy, loaded_mb_per_proxy, millicores, rps, steady_s, sustained_per_s};

use super::cost::{nodes, usd_per_month};
use super::definition::Published::Exactly;
use super::definition::Value::{Added, Cost, Mean};
use super::definition::{At, Column, Condition, Headline, Publication, Step, Table};

const MEAN: At = At::latency("ladder", Statistic::Mean);
const P50: At = At::latency("ladder", Statistic::P50);
const P99: At = At::latency("ladder", Statistic::P99);
const RPS: At = At::new("ladder", rps);
const ERRORS: At = At::errors("ladder");
const MEMORY: At = At::new("ladder", loaded_mb_per_proxy);
/// The lab computes the costs from the CPU time and the memory of these runs.
const COST: At = At::cpu("ladder", millicores).rate(1000);

pub(super) const PUBLICATION: Publication = Publication {
    who: "Ankush Choudhary Johal, 2026: Istio and Linkerd, with Fortio as the load",
    source: "https://dev.to/johalputt/performance-test-istio-123-vs-linkerd-215-service-mesh-latency-for-2026-microservices-on-k8s-4h3n",
    load: "HTTP/1.1 requests to 10 replicas of a hello-world at 100, 500, 1,000 and 5,000 a second, each after a warm-up at \
           half the rate",
    conditions: &[
        Condition { target: Direct, name: "no mesh" },
        Condition { target: Linkerd, name: "Linkerd" },
        Condition { target: Istio, name: "Istio" },
        Condition { target: LenoMesh, name: "Leno" },
    ],
    steps: &[
        Step {
            name: "ladder",
            quick: "ladder --rate 100,500,1000,5000 --duration-s 5 --warm-up-s 2 --repeat 3",
            full: "ladder --rate 100,500,1000,5000 --duration-s 60 --warm-up-s 30 --repeat 10",
        },
        Step {
            name: "capacity",
            quick: "capacity --protocol http1 --backends 10 --connections 64 --duration-s 5 --warm-up-s 2 --repeat 1",
            full: "capacity --protocol http1 --backends 10 --connections 64 --duration-s 60 --warm-up-s 10 --repeat 5",
        },
        Step {
            name: "steady",
            quick: "steady --protocol http1 --backends 10 --rate 1000 --duration-s 20 --repeat 1",
            full: "steady --protocol http1 --backends 10 --rate 1000 --duration-s 600 --repeat 5",
        },
    ],
    tables: &[
        Table {
            title: "p99 that the mesh adds, ms, by requests per second",
            base: Istio,
            columns: &[
                Column::less("100", "p99 added at 100 requests/s", "ms", Added(P99.rate(100), Direct))
                    .theirs(&[(Linkerd, Exactly(0.9)), (Istio, Exactly(1.8))]),
                Column::less("500", "p99 added at 500 requests/s", "ms", Added(P99.rate(500), Direct))
                    .theirs(&[(Linkerd, Exactly(1.2)), (Istio, Exactly(2.4))]),
                Column::less("1,000", "p99 added at 1,000 requests/s", "ms", Added(P99.rate(1000), Direct))
                    .theirs(&[(Linkerd, Exactly(1.8)), (Istio, Exactly(3.5))]),
                Column::less("5,000", "p99 added at 5,000 requests/s", "ms", Added(P99.rate(5000), Direct))
                    .theirs(&[(Linkerd, Exactly(4.3)), (Istio, Exactly(8.1))]),
            ],
        },
        Table {
            title: "Memory of a sidecar, MB, by requests per second",
            base: Istio,
            columns: &[
                Column::less(
                    "idle",
                    "memory of an idle sidecar",
                    "MB",
                    Mean(At::new("ladder", idle_mb_per_proxy).rate(100)),
                )
                .theirs(&[(Linkerd, Exactly(92.0)), (Istio, Exactly(185.0))]),
                Column::less("500", "memory of a sidecar at 500 requests/s", "MB", Mean(MEMORY.rate(500)))
                    .theirs(&[(Linkerd, Exactly(128.0)), (Istio, Exactly(215.0))]),
                Column::less("1,000", "memory of a sidecar at 1,000 requests/s", "MB", Mean(MEMORY.rate(1000))),
                Column::less("5,000", "memory of a sidecar at 5,000 requests/s", "MB", Mean(MEMORY.rate(5000)))
                    .theirs(&[(Linkerd, Exactly(195.0)), (Istio, Exactly(310.0))]),
            ],
        },
        Table {
            title: "Throughput, start and cost",
            base: Istio,
            columns: &[
                Column::more(
                    "highest rate, requests/s",
                    "highest rate with fewer than 0.1 % errors",
                    "/s",
                    Mean(At::new("capacity", sustained_per_s).of_all_runs()),
                )
                .theirs(&[(Linkerd, Exactly(14_100.0)), (Istio, Exactly(12_400.0))]),
                Column::less(
                    "steady after, s",
                    "time until the latency is steady",
                    "s",
                    Mean(At::new("steady", steady_s).of_all_runs()),
                ),
                Column::less(
                    "nodes for 100 services",
                    "nodes for the proxies of 100 services",
                    "nodes",
                    Cost(COST, nodes),
                ),
                Column::less(
                    "USD a month for 100 services",
                    "price of the proxies of 100 services",
                    "USD a month",
                    Cost(COST, usd_per_month),
                )
                .neutral(),
            ],
        },
        Table {
            title: "p99 of a request, ms, by requests per second",
            base: Istio,
            columns: &[
                Column::less("100", "p99 at 100 requests/s", "ms", Mean(P99.rate(100))).neutral(),
                Column::less("500", "p99 at 500 requests/s", "ms", Mean(P99.rate(500))).neutral(),
                Column::less("1,000", "p99 at 1,000 requests/s", "ms", Mean(P99.rate(1000))).neutral(),
                Column::less("5,000", "p99 at 5,000 requests/s", "ms", Mean(P99.rate(5000))).neutral(),
            ],
        },
        Table {
            title: "p50 of a request, ms, by requests per second",
            base: Istio,
            columns: &[
                Column::less("100", "p50 at 100 requests/s", "ms", Mean(P50.rate(100))),
                Column::less("500", "p50 at 500 requests/s", "ms", Mean(P50.rate(500))),
                Column::less("1,000", "p50 at 1,000 requests/s", "ms", Mean(P50.rate(1000))),
                Column::less("5,000", "p50 at 5,000 requests/s", "ms", Mean(P50.rate(5000))),
            ],
        },
        Table {
            title: "Mean of all requests, ms, by requests per second",
            base: Istio,
            columns: &[
                Column::less("100", "mean at 100 requests/s", "ms", Mean(MEAN.rate(100))),
                Column::less("500", "mean at 500 requests/s", "ms", Mean(MEAN.rate(500))),
                Column::less("1,000", "mean at 1,000 requests/s", "ms", Mean(MEAN.rate(1000))),
                Column::less("5,000", "mean at 5,000 requests/s", "ms", Mean(MEAN.rate(5000))),
            ],
        },
        Table {
            title: "Answered requests per second, by the rate",
            base: Istio,
            columns: &[
                Column::more("100", "requests answered at 100/s", "/s", Mean(RPS.rate(100))).neutral(),
                Column::more("500", "requests answered at 500/s", "/s", Mean(RPS.rate(500))).neutral(),
                Column::more("1,000", "requests answered at 1,000/s", "/s", Mean(RPS.rate(1000))).neutral(),
                Column::more("5,000", "requests answered at 5,000/s", "/s", Mean(RPS.rate(5000))).neutral(),
            ],
        },
        Table {
            title: "Failed requests, %, by requests per second",
            base: Istio,
            columns: &[
                Column::less("100", "failed requests at 100/s", "%", Mean(ERRORS.rate(100))),
                Column::less("500", "failed requests at 500/s", "%", Mean(ERRORS.rate(500))),
                Column::less("1,000", "failed requests at 1,000/s", "%", Mean(ERRORS.rate(1000))),
                Column::less("5,000", "failed requests at 5,000/s", "%", Mean(ERRORS.rate(5000))),
            ],
        },
    ],
    headline: Headline {
        begin: "At 1,000 requests a second, 99 of 100 requests took at most",
        column: Column::less("1,000", "p99 at 1,000 requests/s", "ms", Mean(P99.rate(1000))),
    },
    never_shown: &[
        "Control planes: the lab runs data planes, so their memory is missing, and memory by namespace with it.",
        "Three load replicas: one load generator sends all requests, over 64 connections.",
        "The published highest rate is the rate of one sidecar. Here, the highest rate counts all requests. All requests \
         pass the client's sidecar, and each of the ten servers' sidecars gets about a tenth of them. All sidecars share \
         the machine's CPUs.",
        "The publication calls its latencies those that the mesh adds. Here, the p99 of the condition without a mesh is \
         subtracted within each repeat. A difference of two percentiles may be below 0.",
    ],
    quick_leaves_out: &[
        "Runs of 5 s with 3 repeats; the highest rate and the time until steady are measured once.",
        "Latency is observed for 20 s after a start. A proxy that takes longer to become steady counts as not steady.",
    ],
    full_keeps: "Runs of 60 s with 10 repeats. The publication's own durations are not known here.",
};
