//! `leno ca`: creates a certificate authority for one machine or for tests, and issues certificates.

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use leno_identity::Validity;
use leno_identity::authority::Authority;
use leno_identity::directory::{
    BUNDLE_FILE, CERTIFICATE_FILE, KEY_FILE, PROGRAM_CERTIFICATE_FILE, PROGRAM_KEY_FILE, read_authority, read_bundle,
    write_authority, write_key_pair,
};
use leno_identity::svid::CHAIN_MAX_CERTIFICATES;
use leno_model::settings::parse_duration;
use leno_model::spiffe::{SpiffeId, TrustDomain, Workload};

/// Actions of `leno ca`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make an authority, and a trust bundle with this authority as its only anchor
    Init {
        /// Trust domain of the identities that the authority certifies: lower-case letters, digits, dots, dashes and
        /// underscores
        #[arg(long, value_name = "NAME", default_value = "cluster.local")]
        trust_domain: TrustDomain,
        /// Directory to write to
        #[arg(long, value_name = "DIR", default_value = "ca")]
        out: PathBuf,
        /// Replace an existing authority; peers then no longer trust the certificates that the old authority issued
        #[arg(long)]
        force: bool,
    },
    /// Certify a program that is not a proxy: curl, openssl, a test
    Issue {
        /// Directory that `leno ca init` wrote
        #[arg(value_name = "DIR")]
        authority: PathBuf,
        /// Identity of the program: ns/NAMESPACE/sa/SERVICE-ACCOUNT
        workload: Workload,
        /// Directory to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Lifetime of the certificate, for example 90s or 24h; the certificate ends with the authority's own at the latest
        #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_lifetime)]
        lifetime: Duration,
        /// Start of the certificate's validity and lifetime, relative to now, as -2h or 10m [default: now; the
        /// certificate is valid from 5m earlier, for peers with slow clocks]
        #[arg(long, value_name = "OFFSET", allow_hyphen_values = true, value_parser = parse_offset)]
        not_before: Option<Offset>,
    },
}

/// A time relative to now: earlier by `duration` if `before`, otherwise later by `duration`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offset {
    before: bool,
    duration: Duration,
}

impl Command {
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Init { trust_domain, out, force } => init(trust_domain, out, *force),
            Self::Issue { authority, workload, out, lifetime, not_before } => {
                issue(authority, workload, out, *lifetime, *not_before)
            }
        }
    }
}

fn init(trust_domain: &TrustDomain, out: &Path, force: bool) -> Result<(), Box<dyn Error>> {
    let existing =
        [CERTIFICATE_FILE, KEY_FILE, BUNDLE_FILE].map(|name| out.join(name)).into_iter().find(|f| f.exists());
    if let Some(file) = existing.filter(|_| !force) {
        return Err(format!("{} exists; add --force to replace it, or choose another --out", file.display()).into());
    }
    write_authority(out, &Authority::create(trust_domain.clone(), SystemTime::now())?)?;
    let dir = out.display();
    writeln!(
        io::stdout(),
        "{dir} has an authority for {trust_domain}: {CERTIFICATE_FILE}, {BUNDLE_FILE}, and {KEY_FILE}, a secret\n\
         next: leno-proxy --config DIR --identity ns/<namespace>/sa/<service-account> --issuer {dir}"
    )?;
    Ok(())
}

fn issue(
    directory: &Path,
    workload: &Workload,
    out: &Path,
    lifetime: Duration,
    not_before: Option<Offset>,
) -> Result<(), Box<dyn Error>> {
    let authority = read_authority(directory)?;
    let id = SpiffeId { trust_domain: authority.trust_domain().clone(), workload: workload.clone() };
    let now = SystemTime::now();
    let wanted = validity(now, lifetime, not_before);
    let validity = authority.capped(wanted, now)?;
    let intermediates = authority.intermediates(&read_bundle(directory)?);
    if intermediates.len() >= CHAIN_MAX_CERTIFICATES {
        return Err(format!(
            "{} has {} certificates below the trust anchor, and a chain has at most {} besides the workload's own; keep only \
             the certificates between the issuing authority and its anchor",
            directory.join(CERTIFICATE_FILE).display(),
            intermediates.len(),
            CHAIN_MAX_CERTIFICATES - 1
        )
        .into());
    }
    let pair = authority.issue_key_pair(&id, validity, now)?.followed_by(&intermediates);
    write_key_pair(out, &pair)?;
    // Print `not_after` in whole seconds, as the certificate stores it.
    let end = jiff::Timestamp::from_second(jiff::Timestamp::try_from(validity.not_after)?.as_second())?;
    let why = if validity.not_after < wanted.not_after { ", when the authority's own certificate ends" } else { "" };
    let (certificate, key) = (out.join(PROGRAM_CERTIFICATE_FILE), out.join(PROGRAM_KEY_FILE));
    let (certificate, key, bundle) = (certificate.display(), key.display(), directory.join(BUNDLE_FILE));
    // With -cert alone, openssl sends only the first certificate of the file.
    let chain = if intermediates.is_empty() { String::new() } else { format!(" -cert_chain {certificate}") };
    writeln!(
        io::stdout(),
        "{certificate} and {key} make a program {id} until {end}{why}\n\
         next: openssl s_client -connect ADDR:PORT -alpn h2 -cert {certificate}{chain} -key {key} -CAfile {}",
        bundle.display()
    )?;
    Ok(())
}

fn validity(now: SystemTime, lifetime: Duration, not_before: Option<Offset>) -> Validity {
    let Some(Offset { before, duration }) = not_before else {
        return Validity::starting(now, lifetime);
    };
    let not_before = if before { now - duration } else { now + duration };
    Validity { not_before, not_after: not_before + lifetime }
}

fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = parse_duration(text).filter(|lifetime| *lifetime >= Duration::from_secs(1));
    lifetime.ok_or_else(|| "write at least one second, for example 90s, 24h or 1h30m".to_owned())
}

fn parse_offset(text: &str) -> Result<Offset, String> {
    let (before, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let duration = parse_duration(digits).ok_or("write a time from now, as -2h for before or 10m for after")?;
    Ok(Offset { before, duration })
}
