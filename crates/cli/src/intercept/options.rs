//! Options of `leno intercept up`.

use leno_intercept::Redirection;

/// Options of `leno intercept up`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) redirection: Redirection,
    /// Backend for the rules; auto uses the first that works: nft, then iptables-legacy, then iptables
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    pub(super) backend: Choice,
    /// Print the rules instead of loading them
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// A choice of backends.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// nftables.
    Nft,
    /// iptables and ip6tables, in the legacy variant if that works.
    Iptables,
    /// The first backend that works.
    Auto,
}

impl Options {
    /// Returns options that redirect connections to the default ports, except the connections of the user `proxy_uid`.
    pub(super) fn new(proxy_uid: u32) -> Self {
        Self { redirection: Redirection::new(proxy_uid), backend: Choice::Auto, dry_run: false }
    }
}

/// Parses a command line of `leno intercept up`, and returns the redirection that it asks for.
#[cfg(test)]
pub(super) fn parse(words: &str) -> Result<Redirection, String> {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }
    let words = ["up"].into_iter().chain(words.split_whitespace());
    let cli: Result<Cli, _> = clap::Parser::try_parse_from(words);
    cli.map(|cli| cli.options.redirection).map_err(|error| error.to_string())
}
