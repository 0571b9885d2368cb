//! Manifests for tests, and functions that parse them.

use crate::manifest::{Manifest, SourceFile, parse_file};
use crate::object::Object;
use crate::problem::Problem;
use crate::translate::{Translation, translate};

/// The manifest of a Service with one port, and of its EndpointSlice with three endpoints.
pub(crate) const ECHO: &str = "\
apiVersion: v1
kind: Service
metadata:
  name: echo
spec:
  clusterIP: 10.96.0.10
  ports:
  - name: grpc
    port: 50051
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: echo-1
  labels: {kubernetes.io/service-name: echo}
addressType: IPv4
ports:
- name: grpc
  port: 50061
endpoints:
- addresses: [127.0.0.3]
- addresses: [127.0.0.1]
- addresses: [127.0.0.2]
";

/// Returns [`ECHO`] with every occurrence of `from` replaced by `to`. Panics if there is none.
pub(crate) fn echo_with(from: &str, to: &str) -> String {
    assert!(ECHO.contains(from), "{from:?} is not in the manifest");
    ECHO.replace(from, to)
}

/// Parses `text` as the content of the file `echo.yaml`.
pub(crate) fn parse(text: &str) -> Result<Manifest, Vec<Problem>> {
    let file = SourceFile { path: "echo.yaml".to_owned(), text: text.to_owned() };
    parse_file(&file, "default").map_err(|refused| refused.problems)
}

/// Returns the mistakes in `text`, each formatted as one line.
pub(crate) fn problems(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(problems) => lines(&problems),
    }
}

/// Returns the notices about `text`, each formatted as one line. `text` must be valid.
pub(crate) fn notices(text: &str) -> Vec<String> {
    lines(&parse(text).expect("a manifest without mistakes").notices)
}

/// Parses `text`, which must be valid, and returns its objects.
pub(crate) fn objects(text: &str) -> Vec<Object> {
    parse(text).expect("a manifest without mistakes").objects
}

/// Parses files, which must be valid, and translates their objects. Each file is a pair of a path and a text.
pub(crate) fn translated(files: &[(&str, &str)]) -> Translation {
    let mut objects = Vec::new();
    for (path, text) in files {
        let file = SourceFile { path: (*path).to_owned(), text: (*text).to_owned() };
        objects.extend(parse_file(&file, "default").expect("a manifest without mistakes").objects);
    }
    translate(&objects, "default")
}

/// Formats each finding as a log line.
pub(crate) fn lines<T: ToString>(findings: &[T]) -> Vec<String> {
    findings.iter().map(T::to_string).collect()
}
