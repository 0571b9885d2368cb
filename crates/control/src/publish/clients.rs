//! Connected clients and the resources of each: the page /clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leno_model::mesh::Mesh;
use leno_xds::Kind;
use serde::Serialize;

use super::holdings::{Entry, KindState, Sent};
use super::ignored::{self, Ignored};
use super::session::{Session, Variant};
use super::subscribers::ClientId;

/// The text that the page shows if the reason for a rejection is no longer kept.
const REASON_DROPPED: &str = "not kept, since the client has rejected later responses; see the log";

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Introduction {
    pub(crate) node: String,
    pub(crate) user_agent: String,
    pub(crate) address: SocketAddr,
    /// The SPIFFE id in the client's certificate.
    pub(crate) identity: Option<String>,
}

#[derive(Debug)]
struct Client {
    introduction: Introduction,
    session: Arc<Mutex<Session>>,
}

#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<BTreeMap<ClientId, Client>>);

#[derive(Debug, Serialize)]
pub(crate) struct ClientPage {
    #[serde(flatten)]
    introduction: Introduction,
    variant: &'static str,
    dialect: &'static str,
    namespace: String,
    kinds: Vec<KindPage>,
}

/// A client's resources of one kind.
#[derive(Debug, Serialize)]
struct KindPage {
    kind: Kind,
    wants_all: bool,
    /// Whether a response still waits for the client's acknowledgement.
    is_waiting: bool,
    resources: Vec<ResourcePage>,
}

#[derive(Debug, Serialize)]
struct ResourcePage {
    name: String,
    /// The version that we sent last; `absent` if we sent that the resource does not exist; `nothing` if we sent
    /// nothing.
    sent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<RefusedPage>,
    /// The parts of policies in this resource that the client ignores.
    #[serde(skip_serializing_if = "Ignored::is_empty")]
    ignored: Ignored,
}

/// A version that a client rejected.
#[derive(Debug, Serialize)]
struct RefusedPage {
    version: String,
    why: String,
}

impl Clients {
    pub(crate) fn join(&self, id: ClientId, introduction: Introduction, session: Arc<Mutex<Session>>) {
        self.lock().insert(id, Client { introduction, session });
    }

    pub(crate) fn leave(&self, id: ClientId) {
        self.lock().remove(&id);
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Returns the current page of every client. `mesh` is the latest mesh.
    pub(crate) fn pages(&self, mesh: &Mesh) -> Vec<ClientPage> {
        let clients: Vec<_> =
            self.lock().values().map(|client| (client.introduction.clone(), client.session.clone())).collect();
        clients.into_iter().map(|(introduction, session)| page(introduction, &lock(&session), mesh)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClientId, Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks a session. The task of the stream changes the session; the page only reads it.
pub(crate) fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

fn page(introduction: Introduction, session: &Session, mesh: &Mesh) -> ClientPage {
    let known = Kind::ALL.into_iter().filter(|kind| session.kinds[kind.index()].is_known);
    let program = ignored::program(&introduction.user_agent);
    let ignored = |kind: Kind, name: &str, entry: &Entry| match (program, entry.sent) {
        (Some(program), Sent::Version(_) | Sent::Claimed(_)) => {
            ignored::of_resource(program, (kind, name), &session.audience.namespace, mesh)
        }
        _ => Ignored::new(),
    };
    let kinds = known.map(|kind| {
        let state = &session.kinds[kind.index()];
        let page = |(name, entry): (&Arc<str>, &Entry)| resource(name, entry, state, ignored(kind, name, entry));
        KindPage {
            kind,
            wants_all: state.wants_all,
            is_waiting: state.outstanding.is_some(),
            resources: state.entries.iter().map(page).collect(),
        }
    });
    ClientPage {
        introduction,
        variant: match session.variant {
            Variant::Delta => "delta",
            Variant::StateOfTheWorld => "state-of-the-world",
        },
        dialect: session.audience.dialect.name(),
        namespace: session.audience.namespace.to_string(),
        kinds: kinds.collect(),
    }
}

fn resource(name: &str, entry: &Entry, state: &KindState, ignored: Ignored) -> ResourcePage {
    let refused = entry.refused.as_ref().map(|refused| RefusedPage {
        version: shown(refused.version),
        why: state.reason(refused.response).unwrap_or(REASON_DROPPED).to_owned(),
    });
    ResourcePage { name: name.to_owned(), sent: shown(entry.sent), refused, ignored }
}

fn shown(sent: Sent) -> String {
    match sent {
        Sent::Nothing => "nothing".to_owned(),
        Sent::Version(version) | Sent::Claimed(version) => version.to_string(),
        Sent::Absent => "absent".to_owned(),
    }
}
