//! Index of the cluster's objects, as types of `leno_model`. `watch` sends changes to it, and [`Index::translate`]
//! builds the mesh from its objects.
//!
//! The index uses no Kubernetes client. Its rules:
//!
//! - An object stays in force until the API server reports its removal.
//! - If an object becomes invalid, its last valid version stays in force.
//! - If only annotations of a Service or an EndpointSlice become invalid, its last valid annotations stay in force, but
//!   its new ports and addresses apply. Otherwise, calls to new ports would leave the mesh, and new Pods would get no
//!   calls.
//! - An object that is deleted and created again is a new object, even if no watch reported the removal.
//! - While a kind is listed again, the objects of its previous list stay in force.
//!
//! If an object has had no valid version since the start of the process, a stand-in replaces it for some kinds. The
//! stand-in of an AuthorizationPolicy allows no caller, so that the ports that the policy protects stay closed. The
//! stand-in of a Service or EndpointSlice is the object without its invalid annotations, so that calls to the Service
//! do not leave the mesh.

mod change;
mod names;
mod pods;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
pub use change::{Bare, Change, Content, Kind, Lacking, Name, Namespace, Pod, Revision, Stage};
use leno_install::inject::{Wish, is_never_meshed};
use leno_model::manifest::{Manifest, Refused};
use leno_model::mesh::{Dialled, Mesh};
use leno_model::object::{Address, Object};
use leno_model::problem::{Notice, Problem, in_a_line};
use leno_model::route::status::ParentStatus;
use leno_model::traffic::status::TargetStatus;
use leno_model::translate::{Memo, Translation, translate_again};
use leno_model::typed::Invalid;
use pods::Pods;

/// Maximum number of namespaces in [`Index::expecting_unknown`].
const EXPECTED_UNKNOWN_MAX: usize = 64;

/// Maximum number of errors that the status of one object lists.
const PROBLEMS_SHOWN_MAX: usize = 3;

/// The objects of a cluster.
#[derive(Debug)]
pub struct Index {
    objects: BTreeMap<(Kind, Name), Entry>,
    pods: Pods,
    namespaces: Arc<BTreeMap<Box<str>, Namespace>>,
    service_accounts: BTreeSet<Name>,
    /// Whether policies, namespaces or service accounts have changed since [`Entry::missing`] was last computed.
    are_names_stale: bool,
    /// Namespaces for which the webhook has reviewed a Pod with a proxy or the gRPC sidecar, so that the API server
    /// will soon store the Pod.
    expecting: BTreeSet<Box<str>>,
    /// Like `expecting`, for namespaces that the watch has not reported, the latest last. The namespace may be new. Or
    /// it may already be deleted, and the watch then never reports it; so the length of this queue is limited.
    expecting_unknown: VecDeque<Box<str>>,
    /// Kinds that have not been listed completely yet.
    unlisted: BTreeSet<Kind>,
    /// Kinds that the API server does not know.
    absent: BTreeSet<Kind>,
    mesh: Arc<Mesh>,
    memo: Memo,
}

/// One object from which the mesh is built.
#[derive(Debug, Default)]
struct Entry {
    /// The last valid version, or the stand-in. If only annotations of a Service or an EndpointSlice became invalid,
    /// its ports and addresses come from the newer version. An EndpointSlice has only its addresses that are in use;
    /// the others are in `held`.
    object: Option<Object>,
    /// Whether `object` is a stand-in for the current version, because the object has had no valid version.
    is_stand_in: bool,
    /// Whether `object` is a Service or an EndpointSlice with the annotations of the last valid version, and the ports
    /// and addresses of a newer version.
    has_newer_spec: bool,
    /// Addresses of an EndpointSlice that stay unused. Each names a Pod that does not own the address: the Pod does not
    /// report it yet, so we do not know whether a proxy listens there, or another Pod has it.
    held: Vec<Address>,
    /// Errors of the current version.
    problems: Vec<Problem>,
    notices: Vec<Notice>,
    /// The service accounts and namespaces that a policy names but that do not exist, as text; `None` if all exist.
    missing: Option<String>,
    /// The revision of the current version.
    revision: Revision,
    /// Digest of the current version as it was read; `None` before the first version.
    digest: Option<[u8; 32]>,
}

/// The result of reading an object whose status we write, for that status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub revision: Revision,
    /// The reason why the object is invalid, in one line; `None` if it is valid.
    pub problem: Option<String>,
    /// The service accounts and namespaces that a policy names but that do not exist, in one line; `None` if all exist.
    pub missing: Option<String>,
}

/// A Pod that lacks the proxy or gRPC sidecar for which its annotation, or the annotation of its namespace, asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmeshed {
    pub name: Box<str>,
    pub uid: Box<str>,
    pub lacking: Lacking,
}

/// The mesh that was built from the objects at one time, with its problems, notices and statuses.
#[derive(Debug)]
pub struct Joined {
    pub mesh: Arc<Mesh>,
    /// Conflicts between objects.
    pub problems: Vec<Problem>,
    pub notices: Vec<Notice>,
    /// The status of each route for each Service that it names as a parent.
    pub routes: Vec<ParentStatus>,
    /// The status of each TrafficPolicy and XBackendTrafficPolicy for each of its targets.
    pub traffic: Vec<TargetStatus>,
}

/// The effects of a change, with the texts for the log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Whether the change affects the mesh, the statuses or the reports.
    pub is_change: bool,
    /// Errors that are new.
    pub problems: Vec<Problem>,
    /// Describes what of the object is in force until its errors are corrected; empty without errors.
    pub until_then: String,
    /// The namespace of the object, if the object had errors before the change and has none now.
    pub mended: Option<Box<str>>,
}

impl Entry {
    /// Whether the entry holds a valid version.
    fn is_good(&self) -> bool {
        self.object.is_some() && !self.is_stand_in
    }

    /// Replaces the object. If the object is an EndpointSlice, also sets the proxies of its addresses.
    fn put(&mut self, object: Option<Object>, pods: &Pods) {
        self.object = object;
        self.held.clear();
        match &mut self.object {
            Some(Object::EndpointSlice(slice)) => pods.join(Arc::make_mut(slice), &mut self.held),
            // Drop the compiled patterns, which can take a hundred times the memory of their text. Only proxies match
            // requests; the index needs only the text and the size of the patterns.
            Some(Object::Route(route)) => route.forget_compiled(),
            _ => {}
        }
    }

    /// Describes what of the object is in force while it is invalid.
    fn until_then(&self, kind: Kind) -> String {
        match &self.object {
            Some(Object::AuthorizationPolicy(policy)) if self.is_stand_in => {
                format!("it allows no caller on {}", policy.policy.target())
            }
            Some(Object::EndpointSlice(_)) if self.is_stand_in => {
                "it is in force without the invalid annotations, and only for endpoints that name a Pod".to_owned()
            }
            Some(_) if self.is_stand_in => "it is in force without the invalid annotations".to_owned(),
            None if kind == Kind::AuthorizationPolicy => "it has no effect, since its mode is Audit".to_owned(),
            None => "it has no effect".to_owned(),
            Some(_) if self.has_newer_spec => {
                "its last valid annotations, ports and addresses stay in force".to_owned()
            }
            Some(_) => "its last valid version stays in force".to_owned(),
        }
    }
}

impl Index {
    /// Creates an empty index, in which no kind has been listed yet.
    pub fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            pods: Pods::default(),
            namespaces: Arc::default(),
            service_accounts: BTreeSet::new(),
            are_names_stale: false,
            expecting: BTreeSet::new(),
            expecting_unknown: VecDeque::new(),
            unlisted: Kind::ALL.into(),
            absent: BTreeSet::new(),
            mesh: Arc::new(Mesh::empty()),
            memo: Memo::default(),
        }
    }

    /// Applies one change of one kind.
    pub fn take(&mut self, kind: Kind, change: Change) -> News {
        let is_change = match change {
            Change::Applied(name, content) => {
                let is_back = self.absent.remove(&kind);
                let news = self.apply(kind, name, content);
                return News { is_change: is_back || news.is_change, ..news };
            }
            Change::Removed(name) => self.remove(kind, &name),
            Change::Listed(names) => {
                let is_first = self.unlisted.remove(&kind) | self.absent.remove(&kind);
                let gone = self.names(kind).into_iter().filter(|name| !names.contains(name));
                gone.fold(is_first, |is_change, name| self.remove(kind, &name) | is_change)
            }
            Change::NotInstalled => {
                let is_first = self.unlisted.remove(&kind) | self.absent.insert(kind);
                self.names(kind).iter().fold(is_first, |is_change, name| self.remove(kind, name) | is_change)
            }
            Change::Expected(namespace) => {
                self.expect(namespace);
                false
            }
        };
        News { is_change, ..News::default() }
    }

    /// Whether every kind has been listed at least once. Until then, the mesh must not be used: a policy that protects
    /// a workload may still be missing.
    pub fn is_complete(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Kinds that have not been listed completely yet.
    pub fn unlisted(&self) -> &BTreeSet<Kind> {
        &self.unlisted
    }

    /// Kinds that the API server does not know.
    pub fn absent(&self) -> &BTreeSet<Kind> {
        &self.absent
    }

    /// Number of objects of `kind` in the index.
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Pod => self.pods.all().len(),
            Kind::Namespace => self.namespaces.len(),
            Kind::ServiceAccount => self.service_accounts.len(),
            _ => self.objects.keys().filter(|(of, _)| *of == kind).count(),
        }
    }

    /// Errors of the current versions of all objects.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.objects.values().flat_map(|entry| &entry.problems)
    }

    /// The result of reading each object whose status we write.
    pub fn observed(&self) -> BTreeMap<(Kind, Name), Observed> {
        let with_status = self.objects.iter().filter(|(_, entry)| entry.revision.generation != 0);
        let observed = with_status.map(|(place, entry)| {
            let problem = (!entry.problems.is_empty()).then(|| {
                let problems: Vec<String> = entry.problems.iter().map(Problem::within_object).collect();
                let problems = in_a_line(&problems, PROBLEMS_SHOWN_MAX);
                match place.0 {
                    Kind::AuthorizationPolicy => format!("{problems}. Until then {}.", entry.until_then(place.0)),
                    _ if entry.is_good() => format!("{problems}. The last valid version stays in force."),
                    _ => format!("{problems}. Until then it has no effect."),
                }
            });
            let missing = entry.missing.clone();
            (place.clone(), Observed { revision: entry.revision.clone(), problem, missing })
        });
        observed.collect()
    }

    /// Notices for the current versions of all objects.
    pub fn notices(&self) -> impl Iterator<Item = Notice> {
        let pods = &self.pods;
        let held = self.objects.iter().filter_map(move |((_, name), entry)| pods.held_back(name, &entry.held));
        let missing =
            self.objects.iter().filter_map(|((_, name), entry)| Some(names::notice(name, entry.missing.as_ref()?)));
        self.objects.values().flat_map(|entry| &entry.notices).cloned().chain(held).chain(missing)
    }

    pub fn namespaces(&self) -> &Arc<BTreeMap<Box<str>, Namespace>> {
        &self.namespaces
    }

    /// The namespaces in which Pods have a proxy or the gRPC sidecar, or in which new Pods get a proxy or the sidecar.
    pub fn meshed_namespaces(&self) -> BTreeSet<Box<str>> {
        let injected = self.namespaces.iter().filter(|(_, namespace)| namespace.injects()).map(|(name, _)| name);
        let has_identity = |pod: &Pod| pod.injected_as.is_some() || pod.bare.as_ref().is_some_and(|bare| bare.has_grpc);
        let inhabited = self.pods.all().iter().filter(|(_, pod)| has_identity(pod)).map(|(name, _)| &name.namespace);
        // Omit namespaces that no longer exist: they need no trust bundle, even if the index still has Pods in them.
        injected
            .chain(inhabited)
            .chain(&self.expecting)
            .filter(|name| self.namespaces.contains_key(*name))
            .cloned()
            .collect()
    }

    /// Returns, for each namespace, the Pods that lack the proxy or gRPC sidecar for which their own annotation or
    /// their namespace's annotation asks. The Pods are sorted by name.
    ///
    /// A namespace whose annotation asks for the proxy or the sidecar is in the map even if all its Pods have it. The
    /// map omits the namespaces that are never meshed, and the namespaces in `excluded`.
    pub fn unmeshed(&self, excluded: &[String]) -> BTreeMap<Box<str>, Vec<Unmeshed>> {
        let asks = |name: &str| self.namespaces.get(name).and_then(Namespace::inject);
        let asking = self.namespaces.keys().filter(|name| Wish::AsNamespace.is_for_the_mesh(asks(name)));
        let mut unmeshed: BTreeMap<Box<str>, Vec<Unmeshed>> = asking.map(|name| (name.clone(), Vec::new())).collect();
        for (Name { namespace, name }, pod) in self.pods.all() {
            let Some(bare) = &pod.bare else { continue };
            if let Some(lacking) = bare.lacks(asks(namespace)) {
                let pod = Unmeshed { name: name.clone(), uid: bare.uid.clone(), lacking };
                unmeshed.entry(namespace.clone()).or_default().push(pod);
            }
        }
        let is_excluded = |namespace: &str| excluded.iter().any(|name| name == namespace);
        unmeshed.retain(|namespace, _| !is_never_meshed(namespace) && !is_excluded(namespace));
        unmeshed.values_mut().for_each(|pods| pods.sort_unstable());
        unmeshed
    }

    /// Builds the mesh from the current objects. The new mesh shares the memory of unchanged parts with the previous
    /// mesh.
    pub fn translate(&mut self) -> Joined {
        self.join_pods();
        self.find_missing_names();
        let objects = self.objects.values().filter_map(|entry| entry.object.as_ref());
        let Translation { mesh, problems, notices, routes, traffic } =
            translate_again(objects, "default", Dialled::Pods, &mut self.memo);
        self.mesh = Arc::new(mesh.with_pods(self.pods.meshed().clone()).sharing(&self.mesh));
        Joined { mesh: self.mesh.clone(), problems, notices, routes, traffic }
    }

    fn apply(&mut self, kind: Kind, name: Name, content: Content) -> News {
        let is_change = match content {
            Content::Object(revision, read) => return self.apply_object(kind, &name, revision, read),
            Content::Custom(revision, read) => {
                let read = read.map_err(|refused| invalid(kind, &name, refused));
                return self.apply_object(kind, &name, revision, read);
            }
            Content::Pod(pod) => self.pods.insert(name, pod),
            Content::ServiceAccount => {
                let is_new = self.service_accounts.insert(name);
                self.are_names_stale |= is_new;
                is_new
            }
            Content::Namespace(namespace) => {
                if let Some(place) = self.expecting_unknown.iter().position(|known| *known == name.name) {
                    self.expecting.extend(self.expecting_unknown.remove(place));
                }
                let is_change = self.namespaces.get(&name.name) != Some(&namespace);
                if is_change {
                    self.are_names_stale = true;
                    Arc::make_mut(&mut self.namespaces).insert(name.name, namespace);
                }
                is_change
            }
        };
        News { is_change, ..News::default() }
    }

    /// Records that the API server will soon store a Pod with a proxy or a gRPC sidecar in this namespace.
    fn expect(&mut self, namespace: Box<str>) {
        if self.namespaces.contains_key(&namespace) {
            self.expecting.insert(namespace);
        } else if !self.expecting_unknown.contains(&namespace) {
            if self.expecting_unknown.len() >= EXPECTED_UNKNOWN_MAX {
                self.expecting_unknown.pop_front();
            }
            self.expecting_unknown.push_back(namespace);
        }
    }

    /// Updates [`Entry::missing`] of each policy, if policies, namespaces or service accounts have changed.
    fn find_missing_names(&mut self) {
        if !std::mem::take(&mut self.are_names_stale) {
            return;
        }
        let known = names::Known { namespaces: &self.namespaces, service_accounts: &self.service_accounts };
        for entry in self.objects.values_mut() {
            if let Some(Object::AuthorizationPolicy(policy)) = &entry.object {
                entry.missing = known.missing(&policy.policy);
            }
        }
    }

    fn apply_object(&mut self, kind: Kind, name: &Name, revision: Revision, read: Result<Manifest, Invalid>) -> News {
        let digest = digest_of(&read);
        let entry = self.objects.entry((kind, name.clone())).or_default();
        // Ignore an event that changes nothing that we read, for example if a client (or we) wrote a status or a
        // timestamp.
        if entry.revision == revision && entry.digest == Some(digest) {
            return News::default();
        }
        self.are_names_stale |= kind == Kind::AuthorizationPolicy;
        if entry.revision.uid != revision.uid {
            // Forget the old object: it was deleted, and another object of this name was created, while no watch ran.
            *entry = Entry::default();
        }
        (entry.revision, entry.digest) = (revision, Some(digest));
        match read {
            Ok(Manifest { mut objects, notices }) => {
                let mended = (!entry.problems.is_empty()).then(|| name.namespace.clone());
                let revision = std::mem::take(&mut entry.revision);
                *entry = Entry { notices, revision, digest: Some(digest), ..Entry::default() };
                entry.put(objects.pop(), &self.pods);
                News { is_change: true, mended, ..News::default() }
            }
            Err(Invalid { problems, notices, stand_in, bare }) => {
                let is_news = entry.problems != problems;
                entry.problems = problems.clone();
                let renewed = entry.object.as_ref().zip(bare).and_then(|(good, newer)| good.renewed(&newer));
                if !entry.is_good() {
                    entry.is_stand_in = true;
                    entry.notices = notices;
                    entry.put(stand_in.map(|object| *object), &self.pods);
                } else if let Some(renewed) = renewed {
                    // Only annotations are invalid: keep the last valid annotations, but take the new ports and
                    // addresses. Otherwise, calls to a new port or address would leave the mesh, and calls to the
                    // address of a deleted Pod would fail.
                    entry.has_newer_spec = true;
                    entry.notices = notices;
                    entry.put(Some(renewed), &self.pods);
                }
                let until_then = entry.until_then(kind);
                let problems = if is_news { problems } else { Vec::new() };
                News { is_change: true, problems, until_then, mended: None }
            }
        }
    }

    /// Removes an object from the index. Returns whether the index had it.
    fn remove(&mut self, kind: Kind, name: &Name) -> bool {
        match kind {
            Kind::Pod => self.pods.remove(name),
            Kind::ServiceAccount => {
                let was_there = self.service_accounts.remove(name);
                self.are_names_stale |= was_there;
                was_there
            }
            Kind::Namespace => {
                self.expecting.remove(&name.name);
                let was_there = self.namespaces.contains_key(&name.name);
                if was_there {
                    self.are_names_stale = true;
                    Arc::make_mut(&mut self.namespaces).remove(&name.name);
                }
                was_there
            }
            _ => self.objects.remove(&(kind, name.clone())).is_some(),
        }
    }

    fn names(&self, kind: Kind) -> Vec<Name> {
        match kind {
            Kind::Pod => self.pods.all().keys().cloned().collect(),
            Kind::Namespace => self.namespaces.keys().map(|name| Name::of_cluster(name)).collect(),
            Kind::ServiceAccount => self.service_accounts.iter().cloned().collect(),
            _ => self.objects.keys().filter(|(of, _)| *of == kind).map(|(_, name)| name.clone()).collect(),
        }
    }

    /// Updates every EndpointSlice that contains an address of a changed Pod: the proxies of its addresses, and which
    /// of its addresses are in use. An address of the Pod before the change counts too, because it may now belong to
    /// another Pod.
    fn join_pods(&mut self) {
        let changed = self.pods.take_changed();
        if changed.is_empty() {
            return;
        }
        for entry in self.objects.values_mut() {
            if let Some(Object::EndpointSlice(slice)) = &mut entry.object
                && pods::has_any(slice, &entry.held, &changed)
            {
                self.pods.join(Arc::make_mut(slice), &mut entry.held);
            }
        }
    }
}

/// Returns the problems of an invalid custom object, and its stand-in if it is an AuthorizationPolicy. Other custom
/// objects have no stand-in.
fn invalid(kind: Kind, name: &Name, refused: Refused) -> Invalid {
    let problems = refused.problems.clone();
    let stand_in = match kind {
        Kind::AuthorizationPolicy => refused.into_policy(&name.namespace, &name.name),
        _ => None,
    };
    Invalid { problems, notices: Vec::new(), stand_in: stand_in.map(Box::new), bare: None }
}

/// Returns a digest of an object as it was read. Hashes its debug text, which includes every field, also of nested
/// types.
fn digest_of(read: &Result<Manifest, Invalid>) -> [u8; 32] {
    let digest = digest(&SHA256, format!("{read:?}").as_bytes());
    digest.as_ref().first_chunk().copied().unwrap_or_default()
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;

#[cfg(test)]
mod traffic_tests;
