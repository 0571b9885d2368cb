//! A parsed header section of a request or a response.

use crate::request::RequestHead;
use crate::response::ResponseHead;

/// The properties of a header section that its connection needs. The fields are stored separately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Head {
    /// No header section, but an empty line before a request.
    #[default]
    EmptyLine,
    Request(RequestHead),
    Response(ResponseHead),
}

impl Head {
    /// Whether the section may be remembered for other connections, because its effect depends only on its bytes.
    pub(crate) fn may_repeat(&self) -> bool {
        match self {
            Self::EmptyLine => false,
            Self::Request(request) => !request.connect && request.upgrade.is_none() && !request.is_absolute,
            Self::Response(response) => !response.interim,
        }
    }
}
