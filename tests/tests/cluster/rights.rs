//! A user of one namespace with the rights that docs/kubernetes.md names, and no other rights.

use std::process::Command;

use leno_tests::kubernetes::Cluster;
use leno_tests::programs::{program, text};
use serde_json::{Value, json};

const RIGHTS: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata: {name: watcher, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: watcher, namespace: shop}
rules:
- {apiGroups: [''], resources: [pods], verbs: [get, list]}
- {apiGroups: [''], resources: [pods/portforward], verbs: [get, create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: watcher, namespace: shop}
subjects: [{kind: ServiceAccount, name: watcher, namespace: shop}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: watcher}
";

/// A user with few rights: the ServiceAccount `watcher`, whose token is in `kubeconfig`.
pub(super) struct Watcher {
    pub(super) kubeconfig: tempfile::NamedTempFile,
}

impl Watcher {
    /// Creates the ServiceAccount with the rights in [`RIGHTS`] in the namespace shop, and a kubeconfig with its token.
    pub(super) fn of_shop(cluster: &Cluster) -> Self {
        cluster.apply(RIGHTS);
        let token = cluster.kubectl(&["-n", "shop", "create", "token", "watcher"]);
        let config = cluster.kubectl(&["config", "view", "--raw", "--minify", "-o", "json"]);
        let mut config: Value = serde_json::from_str(&config).expect("JSON");
        config["users"] = json!([{"name": "watcher", "user": {"token": token.trim()}}]);
        config["contexts"][0]["context"]["user"] = "watcher".into();
        config["contexts"][0]["context"]["namespace"] = "shop".into();
        let kubeconfig = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(kubeconfig.path(), config.to_string()).expect("a file");
        Self { kubeconfig }
    }

    /// Runs `leno` as this user. Returns the exit code and the output.
    pub(super) fn leno(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(program("leno"));
        command.args(arguments).env("KUBECONFIG", self.kubeconfig.path()).stdin(std::process::Stdio::null());
        let output = command.output().expect("leno runs");
        (output.status.code(), text(&output))
    }
}
