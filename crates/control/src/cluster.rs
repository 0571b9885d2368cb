//! The control plane in a cluster: starts its components in the order of their dependencies.
//!
//! The control plane serves clients only once it knows the cluster's objects and has its issuing authority. Its admin
//! endpoint answers from the start.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::ConfigMap;
use leno_admin::logging::LogLevels;
use leno_identity::upkeep::Upkeep;
use leno_install::names::{CONTROL, TRUST_BUNDLE};
use leno_model::mesh::Mesh;
use leno_model::spiffe::Workload;
use rustls::pki_types::DnsName;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::api_server::ApiServer;
use crate::drain::{Phase, drain};
use crate::issuer::{self, ClusterIssuer, Keeper, Lease, Signing, hold, keep_anchors, keep_bundle_file, release};
use crate::kubernetes::KubernetesSource;
use crate::options::Options;
use crate::pages::{ClusterPages, Pages};
use crate::probes::{Heart, Readiness, answer_probes};
use crate::publish::Publisher;
use crate::run::{RunError, listen};
use crate::status::keep_statuses;
use crate::unmeshed::report_unmeshed;
use crate::webhooks::{Certificate, Webhooks};

/// Delay after a failed attempt to issue our own certificates.
const CERTIFY_RETRY: Duration = Duration::from_secs(2);

/// Serves the mesh of a cluster until a signal arrives, and then for the grace period.
pub(crate) async fn serve(options: &Options, log: LogLevels, signal: impl AsyncFnMut()) -> Result<(), RunError> {
    let config = kube::Config::infer().await.map_err(|error| RunError::NoCluster(error.into()))?;
    let api_server = ApiServer::new(config).map_err(|error| RunError::NoCluster(error.into()))?;
    let client = api_server.client();
    let dns_names = options.service_names()?;
    let xds = listen("xds", options.xds)?;
    let identity_service = listen("identity-service", options.identity_service)?;
    let admin = listen("admin", options.admin)?;
    let probes = match options.probes {
        Some(address) => Some(listen("probes", address)?),
        None => None,
    };
    tracing::info!(
        xds = %xds.local_addr()?, identity_service = %identity_service.local_addr()?, admin = %admin.local_addr()?, "watching the cluster"
    );

    let namespace = &options.namespace;
    let holder = holder();
    let lease = || Lease::new(client.clone(), namespace, holder.clone());
    let (leader, leads) = watch::channel(false);
    let mut source = KubernetesSource::start(&api_server, namespace);
    let webhooks = Webhooks::listen(options, &api_server, &source)?;
    if let Some(webhooks) = &webhooks {
        source.follow_options(webhooks.options());
    }
    let is_external = options.external_authority;
    let mut keeper = Keeper::new(&api_server, namespace, options.trust_domain.clone(), is_external, leads.clone());
    let publisher =
        Publisher::in_cluster(Arc::new(Mesh::empty()), options.trust_domain.clone(), &options.cluster_domain);
    let (phase, phases) = watch::channel(Phase::Starting);
    // Sends whether every kind of object has been listed.
    let (listed, is_listed) = watch::channel(false);
    let counts = webhooks.as_ref().map(Webhooks::counts);
    let readiness = Readiness { state: source.state(), phase: phases.clone(), is_external };
    let heart = Heart::new();
    if let Some(probes) = probes {
        answer_probes(probes, heart.clone(), readiness.clone())?;
    }
    let known_signing = Arc::new(OnceLock::new());
    let cluster = Some(ClusterPages {
        readiness,
        signing: known_signing.clone(),
        webhooks: counts,
        hearing: api_server.hearing(),
    });
    let pages = Pages { publisher: publisher.clone(), log, cluster };

    let served = async {
        // Allow this replica to lead from here on. Not earlier: a replica that cannot list the cluster's objects must
        // not lead. Not later: the next step waits for the authority, and only a leader creates it or renews an expired
        // one, unless another program does so.
        source.listed_and(async {}).await;
        listed.send_replace(true);
        let signing = source.listed_and(keeper.ready()).await;
        let _ = known_signing.set(signing.clone());
        let certified = certify(namespace, &dns_names, webhooks.as_ref(), &signing);
        let certified = async {
            tokio::select! {
                certified = certified => certified,
                never = keeper.run() => match never {},
            }
        };
        let (own, certificate) = source.listed_and(certified).await;
        let (mesh, trusting) = (source.mesh(), source.trusting_namespaces());
        let bundle_file = keep_bundle_file(options.trust_bundle.as_deref(), signing.clone());
        let bundles = keep_anchors::<ConfigMap>(&api_server, TRUST_BUNDLE, trusting, leads.clone(), signing.clone());
        let statuses = keep_statuses(client.clone(), leads.clone(), source.judged());
        let unmeshed = report_unmeshed(client.clone(), leads.clone(), source.unmeshed());
        let webhooks = webhooks.zip(certificate);
        let reviewing = run(webhooks, &api_server, leads.clone(), signing.clone(), phase.subscribe());
        // Replace the empty mesh before the first client is accepted: clients must not get a mesh without policies.
        let following = publisher.follow(mesh);
        phase.send_if_modified(|phase| {
            let is_starting = *phase == Phase::Starting;
            if is_starting {
                *phase = Phase::Serving;
            }
            is_starting
        });
        tracing::info!("serving");
        tokio::select! {
            never = bundle_file => match never {},
            never = bundles => match never {},
            never = statuses => match never {},
            never = unmeshed => match never {},
            never = reviewing => match never {},
            served = issuer::serve(identity_service, client.clone(), own.identity(), signing) => Ok(served?),
            served = publisher.serve(xds, Some(own.identity())) => Ok(served?),
            () = following => Ok(()),
            never = own.run() => match never {},
            never = keeper.run() => match never {},
            never = source.run() => match never {},
        }
    };
    let release = async {
        leader.send_replace(false);
        release(lease()).await;
    };
    let running = async {
        tokio::select! {
            served = served => Some(served),
            never = leno_admin::serve(admin, async move |request| pages.answer(request).await) => match never {},
            never = heart.beat() => match never {},
            () = drain(signal, &phase, options.grace, release) => None,
        }
    };
    let ended = tokio::select! {
        // First see whether this replica still leads: if the machine was suspended, it must not write before.
        biased;
        never = lead(lease(), &leader, is_listed, phases) => match never {},
        ended = running => ended,
    };
    // If the replica was drained, it has released the Lease already.
    let Some(ended) = ended else { return Ok(()) };
    issuer::release(lease()).await;
    ended
}

/// Claims and renews the Lease, beginning when every kind of object has been listed, and until [`Phase::Ending`]. Never
/// returns.
async fn lead(
    lease: Lease,
    leader: &watch::Sender<bool>,
    mut is_listed: watch::Receiver<bool>,
    mut phases: watch::Receiver<Phase>,
) -> Infallible {
    let holding = async {
        if is_listed.wait_for(|is_listed| *is_listed).await.is_ok() {
            hold(lease, leader, SystemTime::now).await;
        }
    };
    tokio::select! {
        () = holding => {}
        _ = phases.wait_for(|phase| *phase == Phase::Ending) => {}
    }
    pending().await
}

/// Issues the control plane's own certificates: for xDS and the identity service, and for the webhooks if they are
/// configured. Repeats failed attempts: if the authority has expired, the leader may renew it soon.
async fn certify(
    namespace: &str,
    dns_names: &[DnsName<'static>],
    webhooks: Option<&Webhooks>,
    signing: &watch::Receiver<Arc<Signing>>,
) -> (Upkeep, Option<Certificate>) {
    let workload = || Workload { namespace: namespace.into(), service_account: CONTROL.into() };
    loop {
        let issuer = ClusterIssuer::new(signing.clone(), dns_names.to_vec());
        let own = Upkeep::start(Box::new(issuer), workload(), fastrand::u64(..)).await;
        let certificate = webhooks.map(|webhooks| webhooks.certify(signing)).transpose();
        match (own, certificate) {
            (Ok(own), Ok(certificate)) => return (own, certificate),
            (Err(error), _) => {
                tracing::warn!(%error, "the control plane has no certificate; it tries again");
            }
            (_, Err(error)) => {
                tracing::warn!(%error, "the webhooks have no certificate; the control plane tries again");
            }
        }
        sleep(CERTIFY_RETRY).await;
    }
}

/// Serves the webhooks if they are configured; never returns.
async fn run(
    webhooks: Option<(Webhooks, Certificate)>,
    api_server: &ApiServer,
    leads: watch::Receiver<bool>,
    signing: watch::Receiver<Arc<Signing>>,
    phases: watch::Receiver<Phase>,
) -> Infallible {
    match webhooks {
        Some((webhooks, certificate)) => webhooks.run(certificate, api_server, leads, signing, phases).await,
        None => pending().await,
    }
}

/// Returns the name under which this process holds the Lease; different for each process.
fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}-{:08x}", host.trim(), fastrand::u32(..))
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
