//! The command-line tool with a real API server: before an installation, after it, and during its removal.
//!
//! There are no nodes: installed objects are stored, but Pods never run.

#[path = "cli/proxies.rs"]
mod proxies;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use leno_tests::kubernetes::Cluster;
use leno_tests::programs::{program, text};
use leno_tests::proxy::wait_for;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster without Leno. Dropping this value creates the control plane's namespace again, because other tests have
/// objects in that namespace.
struct Clean<'a>(&'a Cluster);

impl<'a> Clean<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let clean = Self(cluster);
        clean.take_away();
        clean
    }

    fn take_away(&self) {
        let objects = stdout(&leno(self.0, &["uninstall"]));
        if !objects.is_empty() {
            self.delete(&objects);
        }
        self.0.kubectl(&["delete", "namespace", "leno", "--ignore-not-found"]);
    }

    fn delete(&self, objects: &str) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), objects).expect("it is written");
        self.0.kubectl(&["delete", "--ignore-not-found", "-f", &file.path().to_string_lossy()]);
    }
}

impl Drop for Clean<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.take_away();
        }
        self.0.try_kubectl(&["create", "namespace", "leno"]);
    }
}

fn tool() -> Command {
    Command::new(program("leno"))
}

fn leno_as(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = tool();
    command.args(arguments).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    command.output().expect("leno runs: `cargo build --release -p leno` builds it")
}

fn leno(cluster: &Cluster, arguments: &[&str]) -> Output {
    leno_as(&cluster.kubeconfig(), arguments)
}

fn leno_well(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = leno(cluster, arguments);
    assert!(output.status.success(), "leno {arguments:?}: {}", text(&output));
    stdout(&output)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `leno check`. Returns its exit code, and each finding as `verdict name: why -> fix`.
fn check(cluster: &Cluster, arguments: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = leno(cluster, &[&["check", "-o", "json"], arguments].concat());
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("JSON: {}", text(&output)));
    let word = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let shown = |check: &Value| {
        let [verdict, name, why, fix] = ["verdict", "name", "why", "fix"].map(|key| word(check, key));
        format!("{verdict} {name}: {why} -> {fix}")
    };
    (output.status.code(), list["checks"].as_array().expect("checks").iter().map(shown).collect())
}

fn has(found: &[String], line: &str) -> bool {
    found.iter().any(|finding| finding.starts_with(line))
}

/// Returns every object with Leno's labels, as kubectl names it.
fn labelled(cluster: &Cluster) -> String {
    let kinds = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,\
                 validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,\
                 configmaps,secrets,resourcequotas,deployments,services,serviceaccounts,roles,rolebindings";
    let of = |label: &str| cluster.kubectl(&["get", kinds, "-A", "-o", "name", "-l", label]);
    of("app.kubernetes.io/part-of=leno") + &of("app.kubernetes.io/managed-by=leno-control")
}

/// Writes the kubeconfig of a user without any rights into `directory`, and returns its path.
fn stranger(cluster: &Cluster, directory: &Path) -> PathBuf {
    let printed = cluster.kubectl(&["config", "view", "--raw", "-o", "json"]);
    let mut config: Value = serde_json::from_str(&printed).expect("JSON");
    let token = cluster.kubectl(&["-n", "cli-stranger", "create", "token", "default"]);
    for user in config["users"].as_array_mut().expect("users") {
        user["user"] = json!({"token": token.trim()});
    }
    let path = directory.join("config");
    fs::write(&path, config.to_string()).expect("it is written");
    path
}

#[test]
fn an_empty_cluster_is_ready_for_an_installation() {
    let Some(cluster) = Cluster::get() else { return };
    let _clean = Clean::new(&cluster);
    let (code, found) = check(&cluster, &["--pre"]);
    assert_eq!(code, Some(0), "{found:#?}");
    for line in ["ok API server:", "ok version: v1.", "ok rights: you may create all", "ok installation: none is here"]
    {
        assert!(has(&found, line), "{line} is not in {found:#?}");
    }
}

#[test]
fn with_nothing_installed_the_check_says_what_to_type() {
    let Some(cluster) = Cluster::get() else { return };
    let _clean = Clean::new(&cluster);
    let output = leno(&cluster, &["check"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let shown = stdout(&output);
    for words in
        ["there is no namespace leno", "-> leno install | kubectl apply -f -", "not run  Deployment", "1 failed"]
    {
        assert!(shown.contains(words), "{words} is not in\n{shown}");
    }
    let output = leno(&cluster, &["upgrade"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output), "leno: Leno is not installed here; leno install | kubectl apply -f -\n");
}

#[test]
fn an_installation_that_does_not_run_is_told_by_what_is_missing() {
    let Some(cluster) = Cluster::get() else { return };
    let _clean = Clean::new(&cluster);
    cluster.apply(&leno_well(&cluster, &["install"]));
    let found = wait_for("the Deployment has a Pod", PATIENCE, || {
        let (code, found) = check(&cluster, &["--proxy"]);
        assert_eq!(code, Some(1), "{found:#?}");
        has(&found, "failed control plane's Pods: leno-control-").then_some(found)
    });
    for line in [
        "ok namespace: leno is there",
        "ok definitions: authorizationpolicies.leno.dev is there",
        "ok definitions: trafficpolicies.leno.dev is there",
        "failed Deployment: 0 of 2 replicas are available",
        "failed authority: there is no Secret leno-identity-issuer",
        "failed webhooks: MutatingWebhookConfiguration leno-injector has no caBundle",
        "not run control plane: first: control plane's Pods",
        "ok proxies are ready: no Pod has a proxy yet",
    ] {
        assert!(has(&found, line), "{line} is not in {found:#?}");
    }
    let pods = found.iter().find(|finding| finding.contains("control plane's Pods: leno-control-")).expect("the Pod");
    assert!(
        pods.ends_with("no node was found for it -> kubectl get nodes: one must be Ready, and a scheduler must run"),
        "{pods}"
    );
    let (code, found) = check(&cluster, &["--pre"]);
    assert_eq!(code, Some(0));
    assert!(has(&found, "warning installation: Leno is installed: "), "{found:#?}");
}

#[test]
fn an_upgrade_keeps_what_was_chosen_and_never_goes_down_a_version() {
    let Some(cluster) = Cluster::get() else { return };
    let _clean = Clean::new(&cluster);
    cluster.apply(&leno_well(&cluster, &["install", "--set", "control.replicas=4"]));
    cluster.apply(&leno_well(&cluster, &["upgrade", "--set", "control.logLevel=debug"]));
    let deployment = cluster.kubectl(&["-n", "leno", "get", "deployment", "leno-control", "-o", "yaml"]);
    assert!(deployment.contains("  replicas: 4\n") && deployment.contains("--log=debug"), "{deployment}");
    assert!(leno_well(&cluster, &["upgrade", "--reset-values"]).contains("  replicas: 2\n"));

    let label = "app.kubernetes.io/version=99.0.0";
    cluster.kubectl(&["-n", "leno", "label", "deployment", "leno-control", "--overwrite", label]);
    let output = leno(&cluster, &["upgrade"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert!(
        text(&output).starts_with("leno: version 99.0.0 is installed, and this command would install "),
        "{}",
        text(&output)
    );
}

#[test]
fn an_installation_over_another_does_not_undo_what_was_chosen() {
    let Some(cluster) = Cluster::get() else { return };
    let _clean = Clean::new(&cluster);
    cluster.apply(&leno_well(&cluster, &["install", "--ha"]));
    let output = leno(&cluster, &["install"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    let line = text(&output);
    assert!(
        line.starts_with("leno: Leno is installed here with other values: ") && line.lines().count() == 1,
        "{line}"
    );
    assert!(line.contains("control.replicas: 3 would become 2") && line.contains("leno upgrade keeps them"), "{line}");
    for rendered in [&["install", "--ha"][..], &["install", "--offline"], &["install", "--crds"]] {
        assert!(leno_well(&cluster, rendered).contains("kind: CustomResourceDefinition"), "{rendered:?}");
    }
    let alone = leno_as(Path::new("/nonexistent/config"), &["install"]);
    assert!(alone.status.success() && stdout(&alone).contains("kind: Deployment"), "{}", text(&alone));
    assert!(text(&alone).contains("cannot tell whether Leno is installed already: "), "{}", text(&alone));
}

#[test]
fn an_uninstallation_takes_everything_away_and_names_what_still_has_a_proxy() {
    let Some(cluster) = Cluster::get() else { return };
    let clean = Clean::new(&cluster);
    cluster.namespace("cli-shop");
    cluster.apply(
        "{apiVersion: v1, kind: Node, metadata: {name: nowhere}}
---
apiVersion: v1
kind: Pod
metadata: {name: debug, namespace: cli-shop, labels: {leno.dev/injected: \"true\"}}
spec:
  nodeName: nowhere
  initContainers: [{name: leno-proxy, image: leno-proxy, restartPolicy: Always}]
  containers: [{name: app, image: app}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: leno-trust-bundle, namespace: cli-shop, labels: {app.kubernetes.io/managed-by: leno-control}}
",
    );
    cluster.apply(&leno_well(&cluster, &["install", "--ha"]));
    let output = leno(&cluster, &["uninstall"]);
    assert!(output.status.success(), "{}", text(&output));
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(
        warning.contains(
            "pod cli-shop/debug); before you uninstall, run kubectl annotate namespace cli-shop leno.dev/inject-"
        ),
        "{warning}"
    );
    let objects = stdout(&output);
    assert!(objects.contains("name: leno-trust-bundle\n  namespace: cli-shop\n"), "{objects}");
    assert!(objects.contains("kind: ResourceQuota\nmetadata:\n  name: leno-control\n  namespace: leno\n"), "{objects}");

    clean.delete(&objects);
    assert_eq!(labelled(&cluster), "");
    assert!(!cluster.try_kubectl(&["get", "namespace", "leno"]).status.success());
    let output = leno(&cluster, &["uninstall"]);
    assert_eq!(stdout(&output), "");
    assert!(text(&output).contains("this cluster has no object of Leno"), "{}", text(&output));
    cluster.kubectl(&["-n", "cli-shop", "delete", "pod", "debug", "--force", "--grace-period=0"]);
}

#[test]
fn who_may_not_is_told_so_in_one_line() {
    let Some(cluster) = Cluster::get() else { return };
    cluster.namespace("cli-stranger");
    let directory = tempfile::TempDir::new().expect("a directory");
    let kubeconfig = stranger(&cluster, directory.path());
    let output = leno_as(&kubeconfig, &["uninstall"]);
    let line = text(&output);
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.starts_with("leno: you may not do this: ") && line.contains("is forbidden: User"), "{line}");
    assert!(line.contains("ask an administrator of the cluster"), "{line}");
    let output = leno_as(&kubeconfig, &["check", "--pre"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = stdout(&output);
    assert!(shown.contains("you may not create configmaps, namespaces, "), "{shown}");
    assert!(shown.contains("kubectl auth can-i create configmaps"), "{shown}");
}

/// The right to write roles and bindings, without the rights that the roles of an installation grant.
const WRITER_OF_ROLES: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cli-writer}
rules:
- {apiGroups: [rbac.authorization.k8s.io], resources: ['*'], verbs: [create, get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: cli-writer}
subjects: [{kind: ServiceAccount, name: default, namespace: cli-stranger}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cli-writer}
";

#[test]
fn who_may_write_roles_but_not_grant_their_rights_is_told_before_the_installation() {
    let Some(cluster) = Cluster::get() else { return };
    let _clean = Clean::new(&cluster);
    cluster.namespace("cli-stranger");
    cluster.apply(WRITER_OF_ROLES);
    let directory = tempfile::TempDir::new().expect("a directory");
    let shown = stdout(&leno_as(&stranger(&cluster, directory.path()), &["check", "--pre"]));
    for role in ["ClusterRole leno-control", "Role leno-control"] {
        let words = format!("you may not grant the rights of {role}, because you do not hold them all: ");
        assert!(shown.contains(&words), "{words} is not in\n{shown}");
    }
    cluster.kubectl(&["delete", "clusterrole/cli-writer", "clusterrolebinding/cli-writer"]);
}

#[test]
fn a_cluster_that_cannot_be_reached_is_told_with_the_way_to_mend_it() {
    let Some(cluster) = Cluster::get() else { return };
    let missing = leno_as(Path::new("/nonexistent/config"), &["check"]);
    assert_eq!(missing.status.code(), Some(1));
    let line = text(&missing);
    assert!(line.contains("/nonexistent/config") && line.contains("set KUBECONFIG"), "{line}");
    let unknown = text(&leno(&cluster, &["check", "--context", "prod"]));
    assert_eq!(unknown, "leno: the kubeconfig has no context prod; kubectl config get-contexts lists its contexts\n");

    cluster.kill("kube-apiserver");
    let output = leno(&cluster, &["check"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = stdout(&output);
    assert!(shown.contains("failed   API server") && shown.contains("cannot be reached"), "{shown}");
    assert!(shown.contains("first: API server"), "{shown}");
    cluster.start();
}
