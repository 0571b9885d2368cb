//! A Pod without a proxy. Its gRPC programs get an identity, because it has the annotation `leno.dev/inject: grpc`.

use std::path::{Path, PathBuf};

use leno_tests::kubernetes::Cluster;
use leno_tests::mesh::skipped;
use leno_tests::programs::{program, text};
use leno_tests::proxy::wait_for;

use super::user::{PATIENCE, cluster_with_images, image, install_a_meshed_pair, metric, nothing_is_left, state};

/// The caller's account and Pod. The Pod's image contains the client on grpc-go. The client on grpc-java needs a Java
/// runtime: [`Java::mount`] puts directories of this machine in place of MOUNTS and VOLUMES.
const CALLER: &str = r"---
apiVersion: v1
kind: ServiceAccount
metadata: {name: caller, namespace: shop}
---
apiVersion: v1
kind: Pod
metadata:
  name: caller
  namespace: shop
  annotations: {leno.dev/inject: grpc}
spec:
  serviceAccountName: caller
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1000, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: caller
    image: IMAGE
    command: [/leno, echo, '--listen=0.0.0.0:50051']
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true}
    volumeMounts: [{name: tmp, mountPath: /tmp}MOUNTS]
  volumes: [{name: tmp, emptyDir: {}}VOLUMES]
";
/// The command of the client on grpc-go in the Pod.
const GRPC_GO: &[&str] = &["/xds-client"];
/// A policy that denies the caller's calls.
const POLICY: &str = "\
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: only-web, namespace: shop}
spec:
  allow: [{identities: [ns/shop/sa/web]}]
";

/// The Java runtime of this machine. A Pod can use it because the nodes run on this machine too.
struct Java {
    home: PathBuf,
    /// Directories of the machine, and their paths in the Pod.
    mounts: Vec<(PathBuf, String)>,
}

impl Java {
    /// Returns `None` if there is no Java runtime, or if the nodes are other machines.
    fn find(cluster: &Cluster) -> Option<Self> {
        let classes = program("xds-client-grpc-java").with_file_name("../grpc-java").canonicalize().ok()?;
        let runtime = Path::new("/usr/bin/java").canonicalize().ok().filter(|_| cluster.is_ours())?;
        let home = runtime.parent()?.parent()?.to_owned();
        // Debian keeps the runtime's configuration outside of the runtime's directory.
        let conf = home.join("conf/security/java.security").canonicalize().ok()?.parent()?.parent()?.to_owned();
        let conf_at = conf.to_str()?.to_owned();
        let libraries = [("/usr", "/usr"), ("/usr/lib", "/lib"), ("/usr/lib64", "/lib64")];
        let libraries = libraries.into_iter().map(|(path, at)| (path.into(), at.to_owned()));
        let mounts = libraries.chain([(conf, conf_at), (classes, "/classes".to_owned())]).collect();
        Some(Self { home, mounts })
    }

    /// Adds the directories to the caller's manifest.
    fn mount(&self, caller: &str) -> String {
        let (mut mounts, mut volumes) = (String::new(), String::new());
        for (number, (path, at)) in self.mounts.iter().enumerate() {
            mounts += &format!(", {{name: host-{number}, mountPath: {at}, readOnly: true}}");
            volumes += &format!(", {{name: host-{number}, hostPath: {{path: {}}}}}", path.display());
        }
        caller.replace("MOUNTS", &mounts).replace("VOLUMES", &volumes)
    }
}

/// Makes `count` calls from the Pod with a program. Returns the number of calls with each status, such as `OK=20`.
fn call_by(cluster: &Cluster, program: &[&str], count: u32) -> String {
    let count = count.to_string();
    let order = ["xds:///echo.shop:50051", "call", "/leno.echo.v1.Echo/Unary", &count];
    let exec = ["-n", "shop", "exec", "caller", "-c", "caller", "--"];
    let output = cluster.try_kubectl(&[&exec[..], program, &order].concat());
    assert!(output.status.success(), "{}\n{}", text(&output), state(cluster));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[test]
fn a_grpc_program_without_a_proxy_calls_a_meshed_service_by_mutual_tls() {
    let Some(cluster) = cluster_with_images() else { return };
    install_a_meshed_pair(&cluster);
    let java = Java::find(&cluster);
    let caller = CALLER.replace("IMAGE", &image("leno-tools"));
    cluster.apply(&match &java {
        Some(java) => java.mount(&caller),
        None => caller.replace("MOUNTS", "").replace("VOLUMES", ""),
    });
    let ready = ["-n", "shop", "wait", "--for=condition=Ready", "pod/caller", "--timeout=120s"];
    let waited = cluster.try_kubectl(&ready);
    let log = || text(&cluster.try_kubectl(&["-n", "shop", "logs", "caller", "-c", "leno-grpc"]));
    assert!(waited.status.success(), "{}\n{}\n{}", text(&waited), log(), state(&cluster));
    let names = cluster.kubectl(&["-n", "shop", "get", "pod/caller", "-o", "jsonpath={.spec.initContainers[*].name}"]);
    assert_eq!(names, "leno-grpc");

    assert_eq!(call_by(&cluster, GRPC_GO, 20), "OK=20");
    let client = "client_id=\"spiffe://cluster.local/ns/shop/sa/caller\"";
    let came = metric(&cluster, "app=echo", "response_total", &["direction=\"inbound\"", "tls=\"true\"", client]);
    assert!(came >= 20.0, "{came} calls came from the Pod by mutual TLS\n{}", state(&cluster));
    match &java {
        Some(java) => {
            let runtime = java.home.join("bin/java").display().to_string();
            let grpc_java = [&*runtime, "-cp", "/classes:/classes/*", "XdsClient"];
            assert_eq!(call_by(&cluster, &grpc_java, 20), "OK=20");
            let all =
                metric(&cluster, "app=echo", "response_total", &["direction=\"inbound\"", "tls=\"true\"", client]);
            assert!(all >= came + 20.0, "{all} calls came from the Pod, {came} of them before grpc-java's");
        }
        None => skipped("no grpc-java in a Pod: there is no Java runtime on this machine, or its nodes are elsewhere"),
    }

    cluster.apply(POLICY);
    wait_for("the policy", PATIENCE, || (call_by(&cluster, GRPC_GO, 5) == "PermissionDenied=5").then_some(()));
    cluster.kubectl(&["-n", "shop", "delete", "authorizationpolicy", "only-web"]);
    wait_for("the policy is gone", PATIENCE, || (call_by(&cluster, GRPC_GO, 5) == "OK=5").then_some(()));
    nothing_is_left(&cluster);
}
