//! The parts of a world. Each can be left out, so that a failing world becomes shorter.

use std::fmt;

/// A part of a world that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Relays drain, and start again as new processes.
    Drains,
    /// Servers refuse and reset calls, stall, go away, die and come back.
    ServerFaults,
    /// Servers refuse some calls and end connections, but answer the calls that they have accepted.
    RestlessServers,
    /// Servers answer some calls before they have read the whole request.
    EarlyAnswers,
    /// The Service has a route with retries.
    Retries,
    /// The Service has hedging.
    Hedges,
    /// Another Service gets copies of requests.
    Mirrors,
    /// Relays ask a control plane about the mesh.
    Questions,
    /// The control plane does not answer some questions.
    LostAnswers,
    /// Some clients speak HTTP/1.
    Http1,
    /// Some clients and servers speak an opaque protocol.
    Opaque,
    /// Relays call each other as proxies with identities do.
    Identities,
    /// Some clients connect to a Service's address, and send nothing for a while.
    LateClients,
    /// Listeners have few places.
    FewPlaces,
    /// Clients break the protocol.
    HostileClients,
    /// A server breaks the protocol.
    HostileServers,
    /// The mesh changes.
    Changes,
    /// The machine is suspended.
    Suspension,
    /// A proxy stands before some servers.
    InboundProxies,
    /// The policies of the servers' proxies change.
    Policies,
    /// Limits that a world reaches.
    SmallLimits,
    /// A memory budget that a world reaches.
    SmallBudgets,
    /// Clients cancel calls.
    Cancels,
    /// Calls have deadlines.
    Deadlines,
    /// Clients do not read for a while.
    DeafClients,
    /// Clients leave in the middle of their calls.
    HastyClients,
    /// Clients close only their sending side, in the middle of their calls.
    HalfCloses,
    /// Clients reset connections in the middle of their calls.
    Resets,
    /// Well-behaved peers change their SETTINGS while calls are in flight.
    SettingsChanges,
    /// Calls have content of more than a few bytes.
    LongContent,
    /// Small flow-control windows.
    SmallWindows,
    /// The network splits what is written and read.
    Pieces,
    /// More than one server.
    ManyServers,
    /// More than one client.
    ManyClients,
    /// More than four calls of a client.
    ManyCalls,
    /// Clients make no calls for a while.
    Pauses,
}

/// All parts, in the order in which they are left out, and their names in `LENO_WITHOUT`.
const NAMES: &[(Part, &str)] = &[
    (Part::InboundProxies, "inbound-proxies"),
    (Part::ManyClients, "many-clients"),
    (Part::ManyServers, "many-servers"),
    (Part::ManyCalls, "many-calls"),
    (Part::Pauses, "pauses"),
    (Part::Suspension, "suspension"),
    (Part::Drains, "drains"),
    (Part::ServerFaults, "server-faults"),
    (Part::RestlessServers, "restless-servers"),
    (Part::EarlyAnswers, "early-answers"),
    (Part::Retries, "retries"),
    (Part::Hedges, "hedges"),
    (Part::Mirrors, "mirrors"),
    (Part::Questions, "questions"),
    (Part::LostAnswers, "lost-answers"),
    (Part::Http1, "http1"),
    (Part::Opaque, "opaque"),
    (Part::Identities, "identities"),
    (Part::LateClients, "late-clients"),
    (Part::FewPlaces, "few-places"),
    (Part::HostileClients, "hostile-clients"),
    (Part::HostileServers, "hostile-servers"),
    (Part::Changes, "changes"),
    (Part::Policies, "policies"),
    (Part::SmallLimits, "small-limits"),
    (Part::SmallBudgets, "small-budgets"),
    (Part::Cancels, "cancels"),
    (Part::Deadlines, "deadlines"),
    (Part::DeafClients, "deaf-clients"),
    (Part::HastyClients, "hasty-clients"),
    (Part::HalfCloses, "half-closes"),
    (Part::Resets, "resets"),
    (Part::SettingsChanges, "settings-changes"),
    (Part::LongContent, "long-content"),
    (Part::SmallWindows, "small-windows"),
    (Part::Pieces, "pieces"),
];

/// The environment variable with the parts that are left out, separated by commas.
const VARIABLE: &str = "LENO_WITHOUT";

/// The parts that a world has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    without: u64,
}

impl Parts {
    /// Returns all parts.
    pub(crate) fn complete() -> Self {
        Self { without: 0 }
    }

    /// Returns all parts except the parts in `LENO_WITHOUT`.
    pub(crate) fn chosen() -> Self {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.fold(Self::complete(), |parts, name| {
            let part = NAMES.iter().find(|(_, known)| *known == name);
            let known: Vec<_> = NAMES.iter().map(|(_, name)| *name).collect();
            let (part, _) = part.unwrap_or_else(|| panic!("{VARIABLE} has {name:?}; the parts are {known:?}"));
            parts.without(*part)
        })
    }

    /// Returns every part, in the order in which the parts are left out.
    pub(crate) fn all() -> impl Iterator<Item = Part> {
        NAMES.iter().map(|(part, _)| *part)
    }

    pub(crate) fn has(self, part: Part) -> bool {
        self.without & bit(part) == 0
    }

    pub(crate) fn without(self, part: Part) -> Self {
        Self { without: self.without | bit(part) }
    }
}

impl fmt::Display for Parts {
    /// Writes the parts that are left out, in the form of `LENO_WITHOUT`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().filter(|(part, _)| !self.has(*part)).map(|(_, name)| *name);
        write!(f, "{VARIABLE}={}", names.collect::<Vec<_>>().join(","))
    }
}

fn bit(part: Part) -> u64 {
    1 << part as u32
}
