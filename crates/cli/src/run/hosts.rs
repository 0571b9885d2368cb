//! The names of the mesh's services, in the format of /etc/hosts.

use std::fmt::Write as _;

use leno_model::object::Service;

/// Returns the machine's own lines, followed by the names of all `services` that have an address. As in a cluster,
/// services in `namespace` also have a short name, without the namespace.
pub(super) fn hosts(own_lines: &str, services: &[Service], namespace: &str) -> String {
    let mut text = own_lines.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str("# Services of the mesh, kept up to date by leno run\n");
    for service in services {
        let (name, of) = (&service.identity.name, &service.identity.namespace);
        let short = if **of == *namespace { format!("{name} ") } else { String::new() };
        for address in &service.cluster_ips {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{address} {short}{name}.{of} {name}.{of}.svc {name}.{of}.svc.cluster.local");
        }
    }
    text
}

#[cfg(test)]
#[path = "hosts_tests.rs"]
mod tests;
