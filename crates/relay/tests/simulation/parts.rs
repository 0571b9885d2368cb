//! The parts of a world (one simulated run). Each can be left out, so that a failing world becomes shorter.

use std::fmt;

/// A part of a world, which `LENO_WITHOUT` can leave out.
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
    /// The HTTP servers' Service has a route with retries.
    Retries,
    /// The Service has hedging.
    Hedges,
    /// Another Service gets copies of requests.
    Mirrors,
    /// Relays request the mesh from a control plane, destination by destination.
    Questions,
    /// The control plane leaves some discovery requests without an answer.
    LostAnswers,
    /// Some clients speak HTTP/1.
    Http1,
    /// Some clients and servers speak an opaque protocol.
    Opaque,
    /// Proxies have identities: calls from relay to relay use HTTP/2, and opaque connections use tunnels.
    Identities,
    /// Some clients connect to a Service's address, and send nothing for a while.
    LateClients,
    /// Listeners accept only a few connections at a time.
    FewPlaces,
    /// Clients break the protocol.
    HostileClients,
    /// A server breaks the protocol.
    HostileServers,
    /// The mesh changes.
    Changes,
    /// The machine is suspended.
    Suspension,
    /// Some servers have a proxy of their own.
    InboundProxies,
    /// The policies of the servers' proxies change.
    Policies,
    /// Limits are so small that calls reach them.
    SmallLimits,
    /// Memory budgets are so small that relays reach them.
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
    /// The network splits the bytes of a write or a read into pieces.
    Pieces,
    /// More than one server.
    ManyServers,
    /// More than one client.
    ManyClients,
    /// A client may make more than four calls.
    ManyCalls,
    /// Clients make no calls for a while.
    Pauses,
}

/// All parts with their names in `LENO_WITHOUT`. If a world fails, the test tries in this order which parts it can
/// leave out of the world.
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

/// The environment variable that lists the parts to leave out, separated by commas.
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

    /// Returns every part, in the order in which the test tries to leave out the parts of a failing world.
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
