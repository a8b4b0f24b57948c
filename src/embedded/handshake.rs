use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};

/// Largest request that is read, in bytes.
const MAX_REQUEST: usize = 8 * 1024;

/// What became of the bytes of an opening handshake.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// More bytes are needed.
    Incomplete,
    /// The response that opens the connection, and the length of the request.
    Accept {
        /// Bytes to send.
        response: Vec<u8>,
        /// Bytes of the request; what follows are frames.
        request_len: usize,
    },
    /// The response that refuses it.
    Refuse(Vec<u8>),
}

/// Answers an opening handshake for any key (RFC 6455, section 4.2). No extension or subprotocol is ever accepted;
/// `extension` is what a faulty server claims anyway.
pub(super) fn answer(bytes: &[u8], extension: Option<&'static str>) -> Answer {
    let (request_len, request) = match Request::try_parse(bytes) {
        Ok(Some(parsed)) => parsed,
        Ok(None) if bytes.len() < MAX_REQUEST => return Answer::Incomplete,
        Ok(None) | Err(_) => return refuse("the request is no HTTP that this server reads"),
    };
    let mut response = match create_response(&request) {
        Ok(response) => response,
        Err(error) => return refuse(&error.to_string()),
    };
    if let Some(extension) = extension {
        let value = extension.parse().expect("a constant that is a header value");
        response.headers_mut().insert("Sec-WebSocket-Extensions", value);
    }
    let mut bytes = Vec::with_capacity(160);
    match write_response(&mut bytes, &response) {
        Ok(()) => Answer::Accept { response: bytes, request_len },
        Err(error) => refuse(&error.to_string()),
    }
}

fn refuse(why: &str) -> Answer {
    Answer::Refuse(
        format!(
            "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{why}",
            why.len()
        )
        .into_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = "GET /chat HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n";

    #[test]
    fn the_key_of_the_rfc_gets_the_answer_of_the_rfc_and_no_extension() {
        let Answer::Accept { response, request_len } = answer(REQUEST.as_bytes(), None) else {
            panic!("refused")
        };
        let response = String::from_utf8(response).unwrap().to_ascii_lowercase();
        assert!(response.starts_with("http/1.1 101 "));
        assert!(response.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{response}");
        assert!(!response.contains("extensions"));
        assert_eq!(request_len, REQUEST.len());
    }

    #[test]
    fn a_request_cut_anywhere_is_incomplete_and_what_follows_is_left() {
        for cut in 0..REQUEST.len() {
            assert_eq!(answer(&REQUEST.as_bytes()[..cut], None), Answer::Incomplete, "cut at {cut}");
        }
        let more = format!("{REQUEST}\u{2}");
        assert!(
            matches!(answer(more.as_bytes(), None), Answer::Accept { request_len, .. } if request_len == REQUEST.len())
        );
    }

    #[test]
    fn what_is_no_opening_handshake_is_refused() {
        let no_key = REQUEST.replace("Sec-WebSocket-Key", "X-Key");
        let post = REQUEST.replace("GET", "POST");
        let old = REQUEST.replace("Version: 13", "Version: 8");
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(MAX_REQUEST));
        for text in [no_key.as_str(), &post, &old, &endless, "\u{16}\u{3}\u{1}not http\r\n\r\n"] {
            let Answer::Refuse(response) = answer(text.as_bytes(), None) else { panic!("taken: {text}") };
            assert!(response.starts_with(b"HTTP/1.1 400 "));
        }
    }
}
