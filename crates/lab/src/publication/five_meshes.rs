//! Five meshes on Kubernetes under gRPC calls over 10,000 connections.

use crate::experiment::record::TargetKind::{Consul, Istio, Kuma, LenoMesh, Linkerd, Traefik};
use crate::report::Statistic;
use crate::report::figures::{kb_per_connection, loaded_mb, loaded_mb_per_proxy, millicores, sustained_per_s};

use super::definition::Published::Exactly;
use super::definition::Value::Mean;
use super::definition::{At, Column, Condition, Headline, Publication, Step, Table};

const CROWD: &str = "crowd";

const P50: At = At::latency(CROWD, Statistic::P50);
const P99: Column =
    Column::less("p99, ms", "p99 over 10,000 connections", "ms", Mean(At::latency(CROWD, Statistic::P99))).theirs(&[
        (Linkerd, Exactly(8.2)),
        (Traefik, Exactly(11.7)),
        (Kuma, Exactly(14.3)),
        (Consul, Exactly(17.8)),
        (Istio, Exactly(22.1)),
    ]);

pub(super) const PUBLICATION: Publication = Publication {
    who: "Ankush Choudhary Johal, 2026: five service meshes for gRPC workloads",
    source: "https://dev.to/johalputt/benchmark-5-cncf-service-meshes-for-grpc-workloads-in-2026-linkerd-215-wins-35g4",
    load: "unary gRPC calls of 1 KB each way over 10,000 client connections; the highest rate with fewer than 0.1 % errors",
    conditions: &[
        Condition { target: Linkerd, name: "Linkerd" },
        Condition { target: Traefik, name: "Traefik Mesh" },
        Condition { target: Kuma, name: "Kuma" },
        Condition { target: Consul, name: "Consul" },
        Condition { target: Istio, name: "Istio" },
        Condition { target: LenoMesh, name: "Leno" },
    ],
    steps: &[
        Step {
            name: CROWD,
            quick: "crowd --connections 10000 --rate 1000 --payload-bytes 1024 --duration-s 10 --warm-up-s 3 --repeat 2",
            full: "crowd --connections 10000 --rate 1000 --payload-bytes 1024 --duration-s 3600 --warm-up-s 60 --repeat 1",
        },
        Step {
            name: "capacity",
            quick: "capacity --connections 100 --payload-bytes 1024 --duration-s 5 --warm-up-s 2 --repeat 1",
            full: "capacity --connections 10000 --payload-bytes 1024 --duration-s 600 --warm-up-s 10 --repeat 3",
        },
    ],
    tables: &[
        Table {
            title: "Latency and throughput",
            base: Istio,
            columns: &[
                P99,
                Column::more(
                    "highest rate, calls/s",
                    "highest rate with fewer than 0.1 % errors",
                    "/s",
                    Mean(At::new("capacity", sustained_per_s).of_all_runs()),
                )
                .theirs(&[
                    (Linkerd, Exactly(142_000.0)),
                    (Traefik, Exactly(128_000.0)),
                    (Kuma, Exactly(115_000.0)),
                    (Consul, Exactly(98_000.0)),
                    (Istio, Exactly(87_000.0)),
                ]),
            ],
        },
        Table {
            title: "Data plane at 1,000 calls/s over 10,000 connections",
            base: Istio,
            columns: &[
                Column::less(
                    "memory of a sidecar, MB",
                    "mean memory of a sidecar",
                    "MB",
                    Mean(At::new(CROWD, loaded_mb_per_proxy)),
                )
                .theirs(&[
                    (Linkerd, Exactly(12.0)),
                    (Traefik, Exactly(28.0)),
                    (Kuma, Exactly(32.0)),
                    (Consul, Exactly(38.0)),
                    (Istio, Exactly(45.0)),
                ]),
                Column::less(
                    "memory of all proxies, MB",
                    "memory of all proxies",
                    "MB",
                    Mean(At::new(CROWD, loaded_mb)),
                ),
                Column::less(
                    "memory per connection, KB",
                    "memory per client connection",
                    "KB",
                    Mean(At::new(CROWD, kb_per_connection)),
                ),
                Column::less(
                    "CPU of all proxies, mCPU",
                    "CPU time of all proxies",
                    "mCPU",
                    Mean(At::cpu(CROWD, millicores)),
                ),
            ],
        },
        Table {
            title: "Calls at 1,000 calls/s over 10,000 connections",
            base: Istio,
            columns: &[
                Column::less("p50, ms", "p50 over 10,000 connections", "ms", Mean(P50)),
                Column::less("errors, %", "failed calls", "%", Mean(At::errors(CROWD))),
            ],
        },
    ],
    headline: Headline { begin: "Over 10,000 connections, 99 of 100 calls took at most", column: P99 },
    never_shown: &[
        "Control planes: the lab runs data planes, so their memory and CPU are missing.",
        "Traefik Mesh as published: one Traefik without TLS stands for its proxies, and it has no sidecars.",
        "The rate at which the published p99 was measured, which the publication does not name. The lab sends 1,000 calls/s.",
    ],
    quick_leaves_out: &[
        "Runs of 10 s in place of an hour.",
        "The highest rate is searched once and over 100 connections, and confirmed for 5 s.",
    ],
    full_keeps: "An hour over 10,000 connections, as published. The highest rate is confirmed for 10 minutes.",
};
