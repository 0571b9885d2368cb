//! Audit: the settings of call policies whose mode is Audit. The proxy does not apply such a setting: it only counts
//! and logs the action that it would have taken.

/// A setting in mode Audit that the proxy would have applied to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditedPart {
    RequestTimeout,
    BackendTimeout,
    StreamIdle,
    Retry,
    RetryBudget,
    Hedge,
}

/// A set of [`AuditedPart`]s.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AuditedParts(u8);

impl AuditedPart {
    const ALL: [Self; 6] =
        [Self::RequestTimeout, Self::BackendTimeout, Self::StreamIdle, Self::Retry, Self::RetryBudget, Self::Hedge];

    /// Returns the name that metrics and the access log use: the action that the proxy would have taken, or the error
    /// with which it would have answered.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestTimeout => "request-timeout",
            Self::BackendTimeout => "backend-timeout",
            Self::StreamIdle => "stream-idle",
            Self::Retry => "retry",
            Self::RetryBudget => "retry-budget-spent",
            Self::Hedge => "hedge",
        }
    }
}

impl AuditedParts {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds a part. Returns `true` if the part is new, and `false` if the set contained it already.
    pub fn add(&mut self, part: AuditedPart) -> bool {
        let before = self.0;
        self.0 |= 1 << part as u8;
        self.0 != before
    }

    /// Returns the names of the parts.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        AuditedPart::ALL.into_iter().filter(move |part| self.0 & 1 << *part as u8 != 0).map(AuditedPart::name)
    }
}

impl FromIterator<AuditedPart> for AuditedParts {
    fn from_iter<T: IntoIterator<Item = AuditedPart>>(parts: T) -> Self {
        let mut set = Self::default();
        for part in parts {
            set.add(part);
        }
        set
    }
}
