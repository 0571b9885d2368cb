//! How much memory routes take in every proxy that calls their Service.
//!
//! The owner of a Service writes routes, and the clients' proxies keep them, in any namespace. A table is therefore limited in
//! bytes ([`TABLE_MAX_BYTES`]), not only in entries: a pattern of a few letters may take 16 KiB.

use super::{Entry, Filters, HeaderModifier, Match, PathMatch, PathRewrite, RouteTable, ValueMatch};

/// How many bytes the entries of one table may take. Routes that would bring more are not accepted.
pub const TABLE_MAX_BYTES: usize = 1 << 20;
/// What an entry takes beside its texts and patterns.
const ENTRY_BYTES: usize = 256;
/// How many entries a table can have at most; [`TABLE_MAX_BYTES`] allows no more.
pub const ENTRIES_MAX: usize = TABLE_MAX_BYTES / ENTRY_BYTES;

impl RouteTable {
    /// How many bytes its entries take.
    pub fn size_bytes(&self) -> usize {
        self.entries().iter().map(Entry::size_bytes).sum()
    }
}

impl Entry {
    /// The rule counts with each of its entries, since every entry that a proxy reads has a rule of its own.
    fn size_bytes(&self) -> usize {
        let filters = self.rule.backends.iter().map(|backend| &backend.filters).chain([&self.rule.filters]);
        self.matches.size_bytes() + filters.map(Filters::size_bytes).sum::<usize>()
    }
}

impl Match {
    /// How many bytes an entry of a table takes that has this match, without what its rule takes.
    pub fn size_bytes(&self) -> usize {
        let headers = self.headers.iter().map(|header| header.name.len() + header.value.size_bytes());
        let query = self.query.iter().map(|parameter| parameter.name.len() + parameter.value.size_bytes());
        let names = self.server_name.as_ref().map_or(0, |name| name.as_str().len());
        let method = self.method.as_deref().map_or(0, str::len);
        ENTRY_BYTES + self.path.size_bytes() + names + method + headers.chain(query).sum::<usize>()
    }
}

impl PathMatch {
    fn size_bytes(&self) -> usize {
        match self {
            Self::Exact(path) | Self::Prefix(path) => path.len(),
            Self::Pattern(pattern) => pattern.size_bytes(),
            Self::Grpc(method) => {
                [&method.service, &method.method].into_iter().flatten().map(ValueMatch::size_bytes).sum()
            }
        }
    }
}

impl ValueMatch {
    fn size_bytes(&self) -> usize {
        match self {
            Self::Exact(text) => text.len(),
            Self::Pattern(pattern) => pattern.size_bytes(),
        }
    }
}

impl Filters {
    /// How many bytes the texts in the filters take. Mirrors have none: they name Services.
    pub fn size_bytes(&self) -> usize {
        let headers = [&self.request_headers, &self.response_headers].into_iter().flatten();
        let path = |path: &Option<PathRewrite>| match path {
            Some(PathRewrite::Full(text) | PathRewrite::Prefix(text)) => text.len(),
            None => 0,
        };
        let host = |host: &Option<Box<str>>| host.as_deref().map_or(0, str::len);
        let redirect = self.redirect.as_ref().map_or(0, |to| host(&to.hostname) + path(&to.path));
        let rewrite = self.rewrite.as_ref().map_or(0, |to| host(&to.hostname) + path(&to.path));
        headers.map(HeaderModifier::size_bytes).sum::<usize>() + redirect + rewrite
    }
}

impl HeaderModifier {
    fn size_bytes(&self) -> usize {
        let fields = self.set.iter().chain(&self.add).map(|field| field.name.len() + field.value.len());
        fields.chain(self.remove.iter().map(|name| name.len())).sum()
    }
}
