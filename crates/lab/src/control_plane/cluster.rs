//! The objects that the lab creates, changes and deletes in the cluster.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use leno_install::names::{ANCHORS, CONTROL_LABELS, TOKEN_AUDIENCE, TRUST_BUNDLE};
use tokio::time::{Instant, sleep};

use super::control::CONTROL_NAMESPACE;
use super::identity::{Credentials, SERVICE_ACCOUNT};
use super::objects;
use super::plan::{NAMESPACE, Plan, name};
use crate::error::{Error, Result};
use crate::kubernetes::{self, refused};
use crate::namespaces::{RunId, delete_namespaces};

/// Maximum number of objects that are created at the same time.
const CREATING_AT_A_TIME: usize = 16;
/// Longest time for the control plane to write the trust bundle.
const BUNDLE_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(200);

/// A cluster with namespaces for the lab.
#[derive(Clone)]
pub(super) struct Cluster {
    client: Client,
    run: RunId,
}

impl Cluster {
    /// Reads the kubeconfig. Sends no request yet.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(super) async fn connect(kubeconfig: &Path) -> Result<Self> {
        let client = kubernetes::connect(Some(kubeconfig), None).await?;
        Ok(Self { client, run: RunId::random() })
    }

    /// Checks that the lab may use this cluster.
    ///
    /// # Errors
    /// If Leno is installed, because two control planes would write the same objects; or if the lab's namespaces exist
    /// already.
    pub(super) async fn ensure_free(&self) -> Result<()> {
        let deployments: Api<Deployment> = Api::all(self.client.clone());
        let installed = deployments.list(&ListParams::default().labels(CONTROL_LABELS).limit(1)).await;
        if !installed.map_err(refused("looking for Leno in the cluster"))?.items.is_empty() {
            let why = "two control planes would write the same objects; use a cluster without it".to_owned();
            return Err(Error::Cluster { what: "Leno is installed in this cluster".to_owned(), why });
        }
        for namespace in [NAMESPACE, CONTROL_NAMESPACE] {
            let found = self.namespaces().get_opt(namespace).await.map_err(refused("looking for namespaces"))?;
            if found.is_some() {
                let why = format!(
                    "another run is using it, or one was killed; kubectl delete namespace {NAMESPACE} {CONTROL_NAMESPACE}"
                );
                return Err(Error::Cluster { what: format!("the namespace {namespace} is there already"), why });
            }
        }
        Ok(())
    }

    /// Creates the lab's namespaces and the proxies' ServiceAccount.
    ///
    /// # Errors
    /// If the API server rejects a request.
    pub(super) async fn begin(&self) -> Result<()> {
        for namespace in [NAMESPACE, CONTROL_NAMESPACE] {
            let object = self.run.mark(objects::namespace(namespace));
            let made = self.namespaces().create(&PostParams::default(), &object).await;
            made.map_err(refused(format!("making the namespace {namespace}")))?;
        }
        let made = self.accounts().create(&PostParams::default(), &objects::account(SERVICE_ACCOUNT)).await;
        made.map_err(refused("making a ServiceAccount")).map(drop)
    }

    /// Creates the Services with the numbers in `range`, and their endpoints. Calls `made` after each Service. Returns
    /// the Services' cluster IPs. If `served` is given, it is the address of a real server: the first endpoint of each
    /// Service in `plan::CALLED` then has this address.
    ///
    /// # Errors
    /// If the API server rejects a request.
    pub(super) async fn add(
        &self,
        plan: &Plan,
        range: Range<u32>,
        served: Option<SocketAddrV4>,
        made: impl Fn(),
    ) -> Result<Vec<Ipv4Addr>> {
        let one = async |service: u32| {
            let what = || format!("making {}", name(service));
            let slice = objects::slice(plan, service, served);
            self.slices().create(&PostParams::default(), &slice).await.map_err(refused(what()))?;
            let created = self.services().create(&PostParams::default(), &objects::service(service)).await;
            let spec = created.map_err(refused(what()))?.spec.unwrap_or_default();
            made();
            let ip: Option<Ipv4Addr> = spec.cluster_ip.and_then(|ip| ip.parse().ok());
            ip.ok_or_else(|| Error::Cluster { what: what(), why: "it got no IPv4 address".to_owned() })
        };
        stream::iter(range).map(one).buffered(CREATING_AT_A_TIME).try_collect().await
    }

    /// Changes the endpoints of a Service. Returns after the API server's answer.
    ///
    /// # Errors
    /// If the API server rejects the request.
    pub(super) async fn change(&self, plan: &Plan, service: u32, serial: u32) -> Result<()> {
        let endpoints = objects::endpoints(&plan.changed_addresses(service, serial));
        let patch = Patch::Merge(serde_json::json!({ "endpoints": endpoints }));
        let changed = self.slices().patch_metadata(&name(service), &PatchParams::default(), &patch).await;
        changed.map_err(refused(format!("changing the endpoints of {}", name(service)))).map(drop)
    }

    /// Obtains the credentials that a proxy's Pod would have: a token, and the trust bundle as soon as the control
    /// plane has written it.
    ///
    /// # Errors
    /// If the API server rejects a request, or the control plane does not write the trust bundle in time.
    pub(super) async fn credentials(&self) -> Result<Credentials> {
        let spec = TokenRequestSpec { audiences: Some(vec![TOKEN_AUDIENCE.to_owned()]), ..Default::default() };
        let request = TokenRequest { spec: Some(spec), ..Default::default() };
        let answer = self.accounts().create_token_request(SERVICE_ACCOUNT, &PostParams::default(), &request).await;
        let status = answer.map_err(refused("asking for a token"))?.status.unwrap_or_default();
        let token = status.token.unwrap_or_default();
        Ok(Credentials { token, trust_bundle: self.trust_bundle().await? })
    }

    async fn trust_bundle(&self) -> Result<String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let end = Instant::now() + BUNDLE_TIMEOUT;
        loop {
            let map = maps.get_opt(TRUST_BUNDLE).await.map_err(refused("looking for the trust bundle"))?;
            if let Some(bundle) = map.and_then(|map| map.data?.remove(ANCHORS)) {
                return Ok(bundle);
            }
            if Instant::now() > end {
                let why = "see leno-control's log".to_owned();
                return Err(Error::Cluster {
                    what: format!("there is no ConfigMap {TRUST_BUNDLE} in {NAMESPACE}"),
                    why,
                });
            }
            sleep(POLL).await;
        }
    }

    /// Deletes all objects that this run has created, and waits until they are gone.
    ///
    /// # Errors
    /// If the API server rejects a request, or takes too long.
    pub(super) async fn end(&self) -> Result<()> {
        delete_namespaces(&self.client, &[NAMESPACE, CONTROL_NAMESPACE], |it| self.run.has_made(it)).await
    }

    fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn slices(&self) -> Api<EndpointSlice> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}
