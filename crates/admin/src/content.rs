//! The content of a response: a whole page, or a stream of lines.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// The content of an [`Answer`](crate::answer::Answer).
#[derive(Debug)]
pub enum Content {
    Page(Full<Bytes>),
    /// Sends each line when the line arrives. Ends when all senders are dropped.
    Stream(mpsc::Receiver<Bytes>),
}

impl Content {
    /// Returns a copy of a whole page. A stream cannot be copied: returns an empty page for it.
    pub(crate) fn copy(&self) -> Self {
        match self {
            Self::Page(page) => Self::Page(page.clone()),
            Self::Stream(_) => Self::Page(Full::default()),
        }
    }

    /// Whether the content is a stream of lines, which may take a long time.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::Page(page) => Pin::new(page).poll_frame(context),
            Self::Stream(lines) => lines.poll_recv(context).map(|lines| lines.map(|lines| Ok(Frame::data(lines)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Page(page) => page.is_end_stream(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Page(page) => page.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
