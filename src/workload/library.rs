use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use tungstenite::handshake::HandshakeError;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Bytes, Error, Message, Utf8Bytes, WebSocket};

use super::Params;
use super::connection::{Arrived, Connection, Handshake, Sent, Surprise};
use super::payload::{self, End, Tag};
use crate::wire::{ConnectError, Opcode, Target, connect};

/// The library zeroes the whole of its read buffer at each read that finds it empty. At its default of 128 KiB this
/// memset costs more than all the rest of a small message, and would be what is measured.
const READ_BUFFER: usize = 4096;

/// A connection of the `tungstenite` generator: the library's frames over the same sockets, workloads and checks as
/// the native one. It always masks with random keys: the library has no other way.
pub(super) struct Library {
    socket: WebSocket<TcpStream>,
    end: End,
    outgoing: Tag,
    incoming: Tag,
    /// What is to be reported at the next call.
    stashed: Option<Box<Surprise>>,
}

/// What the connections of one thread share: a payload of each direction, and the opcode.
pub(super) struct Kit {
    payloads: [Vec<u8>; 2],
    opcode: Opcode,
}

impl Kit {
    fn payload(&mut self, end: End, tag: Tag, sequence: u32) -> &[u8] {
        let payload = &mut self.payloads[end.index()];
        let head = payload.first_chunk_mut().expect("a payload is never shorter than its head");
        payload::stamp(head, tag, sequence);
        payload
    }
}

impl Connection for Library {
    type Kit = Kit;

    fn versions() -> BTreeMap<String, String> {
        BTreeMap::from([
            ("runner".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("tungstenite".to_owned(), locked_version("tungstenite").to_owned()),
        ])
    }

    fn kit(params: &Params) -> Kit {
        let payloads = End::BOTH.map(|end| payload::blank(end, params.payload as usize));
        Kit { payloads, opcode: params.opcode.into() }
    }

    fn open(target: &Target, end: End, pair: u32) -> Result<(Self, Handshake), ConnectError> {
        let stream = TcpStream::from(connect(target)?);
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_message_size(None)
            .max_frame_size(None);
        let request = format!("ws://{}/", target.server);
        let (socket, response) = tungstenite::client::client_with_config(request, stream, Some(config))
            .map_err(|error| match error {
                HandshakeError::Interrupted(_) => ConnectError::Timeout(target.timeout),
                HandshakeError::Failure(Error::Io(error)) if is_nothing(error.kind()) => {
                    ConnectError::Timeout(target.timeout)
                }
                HandshakeError::Failure(error) => ConnectError::Refused(error.to_string()),
            })?;
        let extensions = response.headers().get_all("Sec-WebSocket-Extensions").iter();
        let extensions =
            extensions.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        socket.get_ref().set_nonblocking(true).map_err(|error| ConnectError::System {
            step: "making a socket non-blocking",
            errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::INVAL),
        })?;
        let (outgoing, incoming) = (Tag::new(end, pair), Tag::new(end.partner(), pair));
        Ok((Library { socket, end, outgoing, incoming, stashed: None }, Handshake { extensions }))
    }

    fn send(&mut self, kit: &mut Kit, sequence: u32) -> Result<Sent, Box<Surprise>> {
        let payload = Bytes::copy_from_slice(kit.payload(self.end, self.outgoing, sequence));
        let message = match kit.opcode {
            Opcode::Text => {
                Message::Text(Utf8Bytes::try_from(payload).expect("payloads are ASCII by construction"))
            }
            _ => Message::Binary(payload),
        };
        sent(self.socket.send(message))
    }

    fn flush(&mut self, _kit: &mut Kit) -> Result<Sent, Box<Surprise>> {
        sent(self.socket.flush())
    }

    fn receive(&mut self, kit: &mut Kit, expected: u32, limit: u32) -> Result<u32, Box<Surprise>> {
        if let Some(stashed) = self.stashed.take() {
            return Err(stashed);
        }
        let mut count = 0;
        let surprise = loop {
            let message = match self.socket.read() {
                Ok(message) => message,
                Err(Error::Io(error)) if is_nothing(error.kind()) => return Ok(count),
                Err(error) => break surprise(error),
            };
            let (opcode, payload) = match &message {
                Message::Binary(payload) => (Opcode::Binary, payload.as_ref()),
                Message::Text(payload) => (Opcode::Text, payload.as_bytes()),
                Message::Close(_) => break closed(&message),
                _ => continue,
            };
            let wanted = kit.opcode;
            let next = kit.payload(self.end.partner(), self.incoming, expected.wrapping_add(count));
            if count == limit || opcode != wanted || payload != next {
                break Surprise::Message(Arrived { opcode, payload: payload.to_vec() });
            }
            count += 1;
            if count == limit {
                return Ok(count);
            }
        };
        if count == 0 {
            return Err(Box::new(surprise));
        }
        // The good ones first; this at the next call.
        self.stashed = Some(Box::new(surprise));
        Ok(count)
    }

    fn next_message(&mut self, _kit: &mut Kit, _expected: u32) -> Result<Option<Arrived>, Box<Surprise>> {
        if let Some(stashed) = self.stashed.take() {
            return match *stashed {
                Surprise::Message(arrived) => Ok(Some(arrived)),
                other => Err(Box::new(other)),
            };
        }
        loop {
            match self.socket.read() {
                Ok(Message::Binary(payload)) => {
                    return Ok(Some(Arrived { opcode: Opcode::Binary, payload: payload.to_vec() }));
                }
                Ok(Message::Text(payload)) => {
                    let payload = payload.as_bytes().to_vec();
                    return Ok(Some(Arrived { opcode: Opcode::Text, payload }));
                }
                Ok(message @ Message::Close(_)) => return Err(Box::new(closed(&message))),
                Ok(_) => {}
                Err(Error::Io(error)) if is_nothing(error.kind()) => return Ok(None),
                Err(error) => return Err(Box::new(surprise(error))),
            }
        }
    }

    fn close(mut self) {
        // A server that is gone already needs no goodbye.
        let _ = self.socket.close(None);
        let _ = self.socket.flush();
    }
}

impl AsFd for Library {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}

fn is_nothing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::TimedOut)
}

/// The library keeps what the kernel did not take, so no room is no error.
fn sent(outcome: Result<(), Error>) -> Result<Sent, Box<Surprise>> {
    match outcome {
        Ok(()) => Ok(Sent::Whole),
        Err(Error::Io(error)) if is_nothing(error.kind()) => Ok(Sent::Queued),
        Err(error) => Err(Box::new(surprise(error))),
    }
}

#[cold]
fn surprise(error: Error) -> Surprise {
    match error {
        Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
            Surprise::Closed("closed the connection without a close frame".to_owned())
        }
        Error::ConnectionClosed | Error::AlreadyClosed => {
            Surprise::Closed("closed the connection".to_owned())
        }
        Error::Io(error) => Surprise::Closed(format!("broke the connection: {error}")),
        other => Surprise::Protocol(format!("something that the library refused ({other})")),
    }
}

#[cold]
fn closed(message: &Message) -> Surprise {
    Surprise::Closed(match message {
        Message::Close(Some(frame)) if frame.reason.is_empty() => {
            format!("closed the connection with code {}", u16::from(frame.code))
        }
        Message::Close(Some(frame)) => {
            format!("closed the connection with code {} (`{}`)", u16::from(frame.code), frame.reason.as_str())
        }
        _ => "closed the connection without a code".to_owned(),
    })
}

/// The version of a dependency that this program was built with.
fn locked_version(name: &str) -> &'static str {
    const LOCK: &str = include_str!("../../Cargo.lock");
    LOCK.split("[[package]]")
        .find(|package| package.contains(&format!("name = \"{name}\"\n")))
        .and_then(|package| package.split("version = \"").nth(1))
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_library_is_that_of_the_lock_file() {
        assert!(locked_version("tungstenite").starts_with("0.30."), "{}", locked_version("tungstenite"));
        assert_eq!(locked_version("no-such-package"), "");
    }
}
