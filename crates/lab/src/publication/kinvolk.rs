//! Kinvolk's comparison of bare Kubernetes, Linkerd and Istio with a graph of services.

use crate::experiment::record::TargetKind::{Direct, Istio, LenoMesh, Linkerd};
use crate::report::Statistic;
use crate::report::figures::{idle_mb, loaded_mb, millicores};

use super::definition::Published::{Exactly, Over};
use super::definition::Value::Mean;
use super::definition::{At, Column, Condition, Headline, Publication, Step, Table};

const P50: At = At::latency("graph", Statistic::P50);
const P99: At = At::latency("graph", Statistic::P99);
const P999: At = At::latency("graph", Statistic::P999);
const WORST: At = At::latency("graph", Statistic::Worst);
const ERRORS: At = At::errors("graph");
const MEMORY: At = At::new("graph", loaded_mb);
const CPU: At = At::cpu("graph", millicores);

const P99_AT_500: Column = Column::less("p99", "p99 at 500 calls/s", "ms", Mean(P99.rate(500))).theirs(&[
    (Direct, Exactly(3.1)),
    (Linkerd, Exactly(6.7)),
    (Istio, Exactly(643.0)),
]);

pub(super) const PUBLICATION: Publication = Publication {
    who: "Kinvolk, May 2019: Linkerd 2.3 and Istio 1.1 beside bare Kubernetes",
    source: "https://kinvolk.io/blog/2019/05/performance-benchmark-analysis-of-istio-and-linkerd/",
    load: "constant 500 and 600 calls/s into a graph of small services, several services deep",
    conditions: &[
        Condition { target: Direct, name: "bare" },
        Condition { target: Linkerd, name: "Linkerd" },
        Condition { target: Istio, name: "Istio" },
        Condition { target: LenoMesh, name: "Leno" },
    ],
    steps: &[Step {
        name: "graph",
        quick: "graph --rate 500,600 --depth 3 --fan-out 2 --duration-s 20 --warm-up-s 3 --repeat 3",
        full: "graph --rate 500,600 --depth 3 --fan-out 2 --duration-s 600 --warm-up-s 30 --repeat 5",
    }],
    tables: &[
        Table {
            title: "Latency at 500 calls/s, ms, and failed calls",
            base: Direct,
            columns: &[
                Column::less("p50", "p50 at 500 calls/s", "ms", Mean(P50.rate(500))),
                P99_AT_500,
                Column::less("p99.9", "p99.9 at 500 calls/s", "ms", Mean(P999.rate(500))).theirs(&[
                    (Direct, Exactly(4.0)),
                    (Linkerd, Exactly(679.0)),
                    (Istio, Over(1000.0)),
                ]),
                Column::less("worst call", "worst call at 500 calls/s", "ms", Mean(WORST.rate(500))),
                Column::less("failed, %", "failed calls at 500 calls/s", "%", Mean(ERRORS.rate(500))),
            ],
        },
        Table {
            title: "Latency at 600 calls/s, ms, and failed calls",
            base: Direct,
            columns: &[
                Column::less("p50", "p50 at 600 calls/s", "ms", Mean(P50.rate(600))),
                Column::less("p99", "p99 at 600 calls/s", "ms", Mean(P99.rate(600))),
                Column::less("p99.9", "p99.9 at 600 calls/s", "ms", Mean(P999.rate(600))),
                Column::less("worst call", "worst call at 600 calls/s", "ms", Mean(WORST.rate(600))),
                Column::less("failed, %", "failed calls at 600 calls/s", "%", Mean(ERRORS.rate(600))),
            ],
        },
        Table {
            title: "All proxies of the mesh",
            base: Istio,
            columns: &[
                Column::less("memory at 500 calls/s, MB", "memory at 500 calls/s", "MB", Mean(MEMORY.rate(500)))
                    .theirs(&[(Linkerd, Exactly(517.0)), (Istio, Exactly(4307.0))]),
                Column::less("CPU at 500 calls/s, mCPU", "CPU time at 500 calls/s", "mCPU", Mean(CPU.rate(500)))
                    .theirs(&[(Linkerd, Exactly(1618.0)), (Istio, Exactly(1723.0))]),
                Column::less("memory at 600 calls/s, MB", "memory at 600 calls/s", "MB", Mean(MEMORY.rate(600))),
                Column::less("CPU at 600 calls/s, mCPU", "CPU time at 600 calls/s", "mCPU", Mean(CPU.rate(600))),
                Column::less(
                    "memory idle, MB",
                    "memory of idle proxies",
                    "MB",
                    Mean(At::new("graph", idle_mb).rate(500)),
                ),
            ],
        },
    ],
    headline: Headline {
        begin: "At 500 calls a second into a graph of seven services, 99 of 100 calls took at most",
        column: P99_AT_500,
    },
    never_shown: &[
        "Control planes: the published memory and CPU include them. The lab runs data planes alone.",
        "The number of services: seven services with one replica each, in place of tens of small applications.",
        "Linkerd 2.3 and Istio 1.1 of 2019: the targets have the settings of current versions.",
    ],
    quick_leaves_out: &["Runs of 20 s with 3 repeats. A p99.9 rests on about 10 calls of a run."],
    full_keeps: "Runs of 10 minutes, the default of the publication's scripts, with 5 repeats.",
};
