use std::fmt;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

use super::server::SmokeLimits;

/// One end of a pair. Errors are clauses.
pub(super) struct End {
    socket: WebSocket<TcpStream>,
    limits: SmokeLimits,
}

/// Why nothing was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nothing {
    /// Nothing came in time.
    Silence(Duration),
    /// The connection is over, with its status code if there was one.
    Closed(Option<u16>),
    /// The connection broke.
    Broken(String),
}

impl fmt::Display for Nothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nothing::Silence(time) => write!(f, "nothing arrived within {} ms", time.as_millis()),
            Nothing::Closed(Some(code)) => write!(f, "the connection was closed with {code}"),
            Nothing::Closed(None) => write!(f, "the connection was closed"),
            Nothing::Broken(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

impl End {
    /// A plain TCP connection with the limits as its timeouts.
    pub(super) fn stream(address: SocketAddr, limits: &SmokeLimits) -> Result<TcpStream, String> {
        let stream = TcpStream::connect_timeout(&address, limits.stall)
            .map_err(|error| format!("no connection: {error}"))?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(limits.stall)))
            .and_then(|()| stream.set_write_timeout(Some(limits.stall)))
            .map_err(|error| format!("a socket refuses its options: {error}"))?;
        Ok(stream)
    }

    /// A WebSocket connection.
    pub(super) fn connect(address: SocketAddr, limits: &SmokeLimits) -> Result<Self, String> {
        let config = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
        let stream = Self::stream(address, limits)?;
        let url = format!("ws://{address}/");
        let (socket, _) = tungstenite::client::client_with_config(url, stream, Some(config))
            .map_err(|error| format!("no handshake: {error}"))?;
        Ok(End { socket, limits: *limits })
    }

    /// Sends a message, frame or control frame.
    pub(super) fn send(&mut self, message: Message) -> Result<(), String> {
        self.socket.send(message).map_err(|error| format!("a message could not be sent: {error}"))
    }

    /// Sends messages with as few system calls as possible.
    pub(super) fn send_all(&mut self, messages: impl Iterator<Item = Message>) -> Result<(), String> {
        let failed = |error| format!("a message could not be sent: {error}");
        for message in messages {
            self.socket.write(message).map_err(failed)?;
        }
        self.socket.flush().map_err(failed)
    }

    /// Sends bytes that need be no frame.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.get_ref().write_all(bytes).map_err(|error| format!("bytes could not be sent: {error}"))
    }

    /// The next message or control frame, within the limit for messages.
    pub(super) fn receive(&mut self) -> Result<Message, Nothing> {
        self.receive_within(self.limits.stall)
    }

    /// The next message or control frame.
    pub(super) fn receive_within(&mut self, time: Duration) -> Result<Message, Nothing> {
        let broken = |error: &dyn fmt::Display| Nothing::Broken(error.to_string());
        self.socket.get_ref().set_read_timeout(Some(time)).map_err(|error| broken(&error))?;
        match self.socket.read() {
            Ok(Message::Close(frame)) => Err(Nothing::Closed(frame.map(|frame| frame.code.into()))),
            Ok(message) => Ok(message),
            Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                Err(Nothing::Closed(None))
            }
            Err(tungstenite::Error::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                Err(Nothing::Silence(time))
            }
            Err(error) => Err(broken(&error)),
        }
    }

    /// The next message or control frame, if one comes at once.
    pub(super) fn receive_soon(&mut self) -> Result<Message, Nothing> {
        self.receive_within(self.limits.quiet)
    }

    /// Expects exactly this message next.
    pub(super) fn expect(&mut self, expected: &Message) -> Result<(), String> {
        match self.receive() {
            Ok(message) if message == *expected => Ok(()),
            Ok(message) => Err(format!("{} arrived in place of {}", describe(&message), describe(expected))),
            Err(nothing) => Err(format!("{nothing} in place of {}", describe(expected))),
        }
    }

    /// Expects that nothing comes for a while.
    pub(super) fn expect_silence(&mut self) -> Result<(), String> {
        match self.receive_soon() {
            Err(Nothing::Silence(_)) => Ok(()),
            Ok(message) => Err(format!("{} arrived that nobody had sent there", describe(&message))),
            Err(nothing) => Err(nothing.to_string()),
        }
    }

    /// Expects that the connection ends, in whatever way.
    pub(super) fn expect_end(&mut self) -> Result<Option<u16>, String> {
        let until = Instant::now() + self.limits.stall;
        let mut code = None;
        while Instant::now() < until {
            match self.receive() {
                Ok(_) => {}
                Err(Nothing::Closed(Some(seen))) => code = Some(seen),
                Err(Nothing::Closed(None) | Nothing::Broken(_)) => return Ok(code),
                Err(Nothing::Silence(_)) => break,
            }
        }
        Err(format!("the connection is still open after {} ms", self.limits.stall.as_millis()))
    }

    /// Starts a close with the normal status code.
    pub(super) fn start_close(&mut self) -> Result<(), String> {
        let frame = tungstenite::protocol::CloseFrame {
            code: tungstenite::protocol::frame::coding::CloseCode::Normal,
            reason: "".into(),
        };
        self.socket.close(Some(frame)).map_err(|error| format!("a close could not be sent: {error}"))
    }

    /// Closes and waits for the other side to do so too.
    pub(super) fn leave(mut self) {
        if self.start_close().is_ok() {
            let _ = self.expect_end();
        }
    }

    /// Our address, by which the server's socket can be found.
    pub(super) fn local_address(&self) -> Result<SocketAddr, String> {
        self.socket.get_ref().local_addr().map_err(|error| format!("a socket has no address: {error}"))
    }
}

/// A message as a reader can tell it from another.
pub(super) fn describe(message: &Message) -> String {
    let kind = match message {
        Message::Text(_) => "text",
        Message::Binary(_) => "binary",
        Message::Ping(_) => "a ping",
        Message::Pong(_) => "a pong",
        Message::Close(_) => "a close",
        Message::Frame(_) => "a frame",
    };
    match message.len() {
        len @ 1..=40 => match message.to_text() {
            Ok(text) if !text.contains(char::is_control) => format!("{kind} `{text}`"),
            _ => format!("{kind} of {len} bytes"),
        },
        len => format!("{kind} of {len} bytes"),
    }
}
