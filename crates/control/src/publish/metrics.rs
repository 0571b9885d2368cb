//! Counters over all clients. Any thread may count; `export` writes them for Prometheus.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use leno_xds::Kind;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    responses: [AtomicU64; 4],
    resources: [AtomicU64; 4],
    acks: [AtomicU64; 4],
    nacks: [AtomicU64; 4],
    written: [AtomicU64; 4],
    too_large: [AtomicU64; 4],
    refused_names: [AtomicU64; 4],
    refused_streams: AtomicU64,
    meshes: AtomicU64,
}

impl Metrics {
    /// Counts a response with this number of resources.
    pub(crate) fn sent(&self, kind: Kind, resources: usize) {
        self.responses[kind.index()].fetch_add(1, Ordering::Relaxed);
        self.resources[kind.index()].fetch_add(resources as u64, Ordering::Relaxed);
    }

    /// Counts an acknowledged response.
    pub(crate) fn acked(&self, kind: Kind) {
        self.acks[kind.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a rejected response.
    pub(crate) fn nacked(&self, kind: Kind) {
        self.nacks[kind.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one encoding of a resource.
    pub(crate) fn written(&self, kind: Kind) {
        self.written[kind.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a version of a resource that was too large to be sent.
    pub(crate) fn too_large(&self, kind: Kind) {
        self.too_large[kind.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of times that a resource was encoded so far.
    #[cfg(test)]
    pub(crate) fn written_so_far(&self) -> u64 {
        self.written.iter().map(|number| number.load(Ordering::Relaxed)).sum()
    }

    /// Number of versions of resources that were too large to be sent so far.
    #[cfg(test)]
    pub(crate) fn too_large_so_far(&self) -> u64 {
        self.too_large.iter().map(|number| number.load(Ordering::Relaxed)).sum()
    }

    /// Counts names that a client may not subscribe to, because it exceeds a limit.
    pub(crate) fn refused_names(&self, kind: Kind, names: usize) {
        self.refused_names[kind.index()].fetch_add(names as u64, Ordering::Relaxed);
    }

    /// Counts a stream that was closed because its client exceeded a limit.
    pub(crate) fn refused_stream(&self) {
        self.refused_streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a new mesh when the control plane begins to serve it.
    pub(crate) fn mesh(&self) {
        self.meshes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn export(&self, clients: usize) -> String {
        let mut text = String::new();
        self.write(&mut text, clients).expect("a string takes everything");
        text
    }

    fn write(&self, text: &mut String, clients: usize) -> fmt::Result {
        let by_kind = [
            ("responses", "Responses sent to xDS clients", &self.responses),
            ("resources", "Resources in them", &self.resources),
            ("acks", "Responses that clients acknowledged", &self.acks),
            ("nacks", "Responses that clients rejected", &self.nacks),
            ("written", "Resources that were encoded; the same one again if it was not kept", &self.written),
            ("too_large", "Versions of resources that were too large to be sent; see the log", &self.too_large),
            (
                "refused_names",
                "Names above a client's limit of subscriptions, each time that the client asks for them; see the log",
                &self.refused_names,
            ),
        ];
        for (name, help, numbers) in by_kind {
            writeln!(text, "# HELP leno_xds_{name}_total {help}\n# TYPE leno_xds_{name}_total counter")?;
            for kind in Kind::ALL {
                let number = numbers[kind.index()].load(Ordering::Relaxed);
                writeln!(text, "leno_xds_{name}_total{{kind=\"{}\"}} {number}", kind.name())?;
            }
        }
        let name = "leno_xds_refused_streams_total";
        let number = self.refused_streams.load(Ordering::Relaxed);
        writeln!(text, "# HELP {name} Streams closed because a client asked for too much\n# TYPE {name} counter")?;
        writeln!(text, "{name} {number}")?;
        let (name, number) = ("leno_xds_meshes_total", self.meshes.load(Ordering::Relaxed));
        writeln!(text, "# HELP {name} Versions of the mesh that were served\n# TYPE {name} counter\n{name} {number}")?;
        let name = "leno_xds_clients";
        writeln!(text, "# HELP {name} Connected xDS clients\n# TYPE {name} gauge\n{name} {clients}")
    }
}
