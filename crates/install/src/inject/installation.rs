//! Checks the values of an installation that no annotation can set.
//!
//! A program ends at once if one of its arguments is invalid. So an invalid value in the installation would stop the
//! control plane, or every new Pod of the mesh.

use leno_model::spiffe::TrustDomain;
use serde_json::Value;

use super::settings::{BadSetting, allowed, image, log_levels, tag};
use crate::annotations::{PROXY_IMAGE, PROXY_LOG_LEVEL, PROXY_VERSION};

const TRUST_DOMAIN: &str = "1 to 255 lower-case letters, digits, dots, dashes and underscores, as cluster.local";
const CLUSTER_DOMAIN: &str =
    "a DNS name of lower-case letters, digits and dashes, with no dot at its end, as cluster.local";
const VERSION: &str = "a tag that can be a label too, for example 0.1.0: at most 63 letters, digits, dots, dashes and underscores, a \
                       letter or a digit first and last, and no digest";
const LOG_LEVEL: &str = "off, error, warn, info, debug, trace, also by target, as info,leno_control=debug";

/// The values of the chart that are text: the name, the check, and the values allowed.
type Text = (&'static str, fn(&str) -> bool, &'static str);

/// Checks values of the chart that the schema cannot check. Also checks values for which the schema could only report
/// a regular expression, since our error names the values allowed.
///
/// # Errors
/// [`BadSetting`] for the first value that does not work.
pub(crate) fn check_values(values: &Value) -> Result<(), BadSetting> {
    let texts: [Text; 5] = [
        ("trustDomain", is_trust_domain, TRUST_DOMAIN),
        ("clusterDomain", is_cluster_domain, CLUSTER_DOMAIN),
        ("image.version", |version| version.is_empty() || is_label(version), VERSION),
        ("control.logLevel", |levels| log_levels(levels).is_some(), LOG_LEVEL),
        ("proxy.logLevel", |levels| log_levels(levels).is_some(), allowed(PROXY_LOG_LEVEL)),
    ];
    texts.into_iter().try_for_each(|(name, is_fit, fix)| {
        let value = name.split('.').fold(values, |value, step| &value[step]);
        // Ignore a value that is not text: the schema validation reports it.
        value.as_str().map_or(Ok(()), |value| check(name, value, is_fit, fix))
    })
}

/// Checks the domains of an installation.
///
/// # Errors
/// [`BadSetting`] for the first domain that does not work.
pub(super) fn check_domains(cluster_domain: &str, trust_domain: &str) -> Result<(), BadSetting> {
    check("clusterDomain", cluster_domain, is_cluster_domain, CLUSTER_DOMAIN)?;
    check("trustDomain", trust_domain, is_trust_domain, TRUST_DOMAIN)
}

/// Parses an image of the proxy, without a tag.
///
/// # Errors
/// If the text is invalid. The message names the values allowed.
pub fn parse_image(text: &str) -> Result<String, String> {
    image(text).ok_or_else(|| format!("use {}", allowed(PROXY_IMAGE)))
}

/// Parses a tag of the proxy's image.
///
/// # Errors
/// If the text is invalid. The message names the values allowed.
pub fn parse_version(text: &str) -> Result<String, String> {
    tag(text).ok_or_else(|| format!("use {}", allowed(PROXY_VERSION)))
}

/// Parses a cluster's DNS domain.
///
/// # Errors
/// If the text is invalid. The message names the values allowed.
pub fn parse_cluster_domain(text: &str) -> Result<String, String> {
    if is_cluster_domain(text) { Ok(text.to_owned()) } else { Err(format!("use {CLUSTER_DOMAIN}")) }
}

/// Parses a trust domain.
///
/// # Errors
/// If the text is invalid. The message names the values allowed.
pub fn parse_trust_domain(text: &str) -> Result<String, String> {
    if is_trust_domain(text) { Ok(text.to_owned()) } else { Err(format!("use {TRUST_DOMAIN}")) }
}

fn check(name: &'static str, value: &str, is_fit: fn(&str) -> bool, fix: &'static str) -> Result<(), BadSetting> {
    if is_fit(value) { Ok(()) } else { Err(BadSetting { name, value: value.to_owned(), fix }) }
}

fn is_trust_domain(text: &str) -> bool {
    text.parse::<TrustDomain>().is_ok()
}

fn is_cluster_domain(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_dns_label = |label: &str| {
        let is_dash = |end: Option<char>| end == Some('-');
        let has_dash_at_end = is_dash(label.chars().next()) || is_dash(label.chars().next_back());
        (1..=63).contains(&label.len()) && label.bytes().all(allowed) && !has_dash_at_end
    };
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

/// Returns whether a text can be the value of a label.
fn is_label(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let is_alphanumeric = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.bytes().all(allowed)
        && text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
}

#[cfg(test)]
#[path = "installation_tests.rs"]
mod tests;
