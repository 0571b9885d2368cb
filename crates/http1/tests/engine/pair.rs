//! A client and a server of the engine, with a wire that splits bytes at random: each side parses the bytes that the
//! other side sends.

use leno_http1::{Limits, Role, Section};

use crate::endpoint::{Endpoint, Fields, Happening};

const SEEDS: std::ops::Range<u64> = 0..200;
const EXCHANGES: usize = 8;

/// A message in the form in which an endpoint sends it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) section: Section,
    pub(crate) fields: Fields,
    /// `None` if the message is only a header section.
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) trailers: Option<Fields>,
}

impl Message {
    pub(crate) fn request(rng: &mut fastrand::Rng) -> Self {
        let method = rng.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS"]).unwrap_or("GET");
        let path = format!("/{}?q={}", word(rng), rng.u8(..));
        let authority = format!("{}:{}", word(rng), rng.u16(1..));
        let pseudo = [(":method", method), (":scheme", "http"), (":authority", &authority), (":path", &path)];
        let fields = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Self::random(Section::Request, fields, rng.bool(), rng)
    }

    pub(crate) fn response(rng: &mut fastrand::Rng) -> Self {
        let status = rng.choice(["200", "201", "204", "304", "404", "500"]).unwrap_or("200");
        let has_content = !matches!(status, "204" | "304") && rng.bool();
        Self::random(Section::Response, vec![(":status".to_owned(), status.to_owned())], has_content, rng)
    }

    fn random(section: Section, mut fields: Fields, has_content: bool, rng: &mut fastrand::Rng) -> Self {
        for _ in 0..rng.u8(..6) {
            fields.push((format!("x-{}", word(rng)), value(rng)));
        }
        let content: Option<Vec<u8>> = has_content.then(|| {
            let max_size = if rng.u8(..) < 8 { 300_000 } else { 300 };
            let size = rng.usize(1..max_size);
            (0..size).map(|at| (at % 251) as u8).collect()
        });
        let mut trailers = None;
        match &content {
            Some(content) if rng.bool() => fields.push(("content-length".to_owned(), content.len().to_string())),
            Some(_) if rng.bool() => trailers = Some(vec![(format!("x-{}", word(rng)), value(rng))]),
            Some(_) => {}
            // Add `content-length: 0` here, as the engine would: the test compares the fields of both sides.
            None if section == Section::Response && !matches!(fields[0].1.as_str(), "204" | "304") => {
                fields.push(("content-length".to_owned(), "0".to_owned()));
            }
            None if matches!(fields[0].1.as_str(), "POST" | "PUT") => {
                fields.push(("content-length".to_owned(), "0".to_owned()));
            }
            None => {}
        }
        if section == Section::Request && rng.bool() {
            fields.push(("te".to_owned(), "trailers".to_owned()));
        }
        Self { section, fields, content, trailers }
    }

    /// The events that the other side must see.
    fn happenings(&self) -> Vec<Happening> {
        let Self { section, fields, content, trailers } = self;
        let mut all =
            vec![Happening::Headers { section: *section, fields: fields.clone(), end_stream: content.is_none() }];
        if let Some(content) = content {
            all.push(Happening::Data { bytes: content.clone(), end_stream: trailers.is_none() });
        }
        if let Some(trailers) = trailers {
            let (section, fields) = (Section::Trailers, trailers.clone());
            all.push(Happening::Headers { section, fields, end_stream: true });
        }
        all
    }

    /// Sends the message through an endpoint, its content in pieces.
    pub(crate) fn send(&self, from: &mut Endpoint, rng: &mut fastrand::Rng) {
        let fields: Vec<(&str, &str)> = borrowed(&self.fields);
        let end_stream = self.content.is_none();
        match self.section {
            Section::Request => from.request(&fields, end_stream).expect("the connection takes a request"),
            _ => from.respond(&fields, end_stream),
        }
        let mut left = self.content.as_deref().unwrap_or_default();
        while !left.is_empty() {
            let (now, later) = left.split_at(rng.usize(1..=left.len()));
            left = later;
            from.http1.send_data(from.key, now, left.is_empty() && self.trailers.is_none());
        }
        if let Some(trailers) = &self.trailers {
            from.trailers(&borrowed(trailers));
        }
    }
}

pub(crate) fn borrowed(fields: &Fields) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn word(rng: &mut fastrand::Rng) -> String {
    (0..rng.usize(1..12)).map(|_| rng.lowercase()).collect()
}

/// A value that HTTP/1 can carry: no white space at its ends.
fn value(rng: &mut fastrand::Rng) -> String {
    let inner: String = (0..rng.usize(..30)).map(|_| char::from(rng.u8(b' '..0x7f))).collect();
    inner.trim().to_owned()
}

/// Moves all output of one side to the other, in pieces.
fn deliver(from: &mut Endpoint, to: &mut Endpoint, rng: &mut fastrand::Rng) {
    loop {
        let output = from.http1.output();
        if output.is_empty() {
            return;
        }
        let piece = output[..rng.usize(1..=output.len())].to_vec();
        from.http1.advance_output(piece.len());
        to.feed(&piece);
        assert!(to.error.is_none(), "{:?}", to.error);
    }
}

fn play(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let connect = || (Endpoint::new(Role::Client, Limits::client()), Endpoint::new(Role::Server, Limits::server()));
    let (mut client, mut server) = connect();
    for _ in 0..EXCHANGES {
        let request = Message::request(&mut rng);
        request.send(&mut client, &mut rng);
        deliver(&mut client, &mut server, &mut rng);
        assert_eq!(server.take(), request.happenings());
        if rng.bool() {
            server.interim(&[(":status", "103"), ("link", "</a>")]);
            deliver(&mut server, &mut client, &mut rng);
            assert_eq!(client.take().len(), 1);
        }
        let response = Message::response(&mut rng);
        response.send(&mut server, &mut rng);
        deliver(&mut server, &mut client, &mut rng);
        assert_eq!(client.take(), response.happenings());
        assert!(client.http1.stream_count() == 0 && server.http1.stream_count() == 0);
        // A server may not read the content of other methods, so such a request is the last one on its connection.
        let is_last = request.content.is_some() && !matches!(request.fields[0].1.as_str(), "POST" | "PUT");
        assert_eq!((client.http1.must_close(), server.http1.must_close()), (is_last, is_last));
        if is_last {
            (client, server) = connect();
        }
    }
}

#[test]
fn what_one_side_sends_the_other_reads() {
    leno_testing::seeds(SEEDS).for_each(play);
}
