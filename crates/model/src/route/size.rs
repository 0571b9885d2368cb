//! The size of routes in the memory of a client's proxy.
//!
//! The owner of a Service writes the routes, but clients' proxies in any namespace store them. A table therefore has a
//! limit in bytes ([`TABLE_MAX_BYTES`]), not only in entries: a pattern of a few letters may take 16 KiB.

use super::{Entry, Filters, HeaderModifier, Match, PathMatch, PathRewrite, RouteTable, ValueMatch};

/// Maximum size in bytes of all entries of one table. Routes that would exceed it are not accepted.
pub const TABLE_MAX_BYTES: usize = 1 << 20;
/// Size of an entry without its texts and patterns.
const ENTRY_BYTES: usize = 256;
/// Maximum number of entries of a table; follows from [`TABLE_MAX_BYTES`].
pub const ENTRIES_MAX: usize = TABLE_MAX_BYTES / ENTRY_BYTES;

impl RouteTable {
    /// Returns the size in bytes of all entries.
    pub fn size_bytes(&self) -> usize {
        self.entries().iter().map(Entry::size_bytes).sum()
    }
}

impl Entry {
    /// Returns the size in bytes of the entry and its whole rule. A rule with several entries counts once for each
    /// entry, because a proxy creates a separate copy of the rule for every entry that it parses.
    fn size_bytes(&self) -> usize {
        let filters = self.rule.backends.iter().map(|backend| &backend.filters).chain([&*self.rule.filters]);
        self.matches.size_bytes() + self.rule.calls.size_bytes() + filters.map(Filters::size_bytes).sum::<usize>()
    }
}

impl Match {
    /// Returns the size in bytes of a table entry with this match. Does not include the size of the entry's rule.
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
    /// Returns the size in bytes of the texts in the filters. Mirrors are left out: they have no texts except the names
    /// of Services.
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
