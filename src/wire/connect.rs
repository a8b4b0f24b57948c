use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use sha1::{Digest, Sha1};
use thiserror::Error;

/// What is appended to the key before hashing (RFC 6455, section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// An answer to a handshake that is longer than this is refused.
const LONGEST_ANSWER: usize = 16 * 1024;

/// Whom to connect to, from where, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The server.
    pub server: SocketAddrV4,
    /// Source address; none lets the kernel choose. Each address of 127.0.0.0/8 has ports of its own.
    pub source: Option<Ipv4Addr>,
    /// For the connection and for the handshake, each.
    pub timeout: Duration,
}

/// Why a connection could not be opened.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kernel refused.
    #[error("{step}: {errno}")]
    System {
        /// What was attempted.
        step: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// No answer within the time.
    #[error("no answer to the handshake within {0:?}")]
    Timeout(Duration),
    /// The server closed the connection instead of answering.
    #[error("the server closed the connection during the handshake")]
    Closed,
    /// An answer that is not the one that RFC 6455 asks for.
    #[error("the server answered the handshake with {0}")]
    Refused(String),
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Opened {
    /// Values of all `Sec-WebSocket-Extensions` headers.
    pub extensions: Vec<String>,
    /// What arrived after the answer: the first bytes of frames.
    pub rest: Vec<u8>,
}

/// Opens a TCP connection in blocking mode, without Nagle's delay, with [`Target::timeout`] on reads and writes.
///
/// # Errors
/// When the kernel refuses, or nobody listens.
pub fn connect(target: &Target) -> Result<OwnedFd, ConnectError> {
    let failed = |step| move |errno| ConnectError::System { step, errno };
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(failed("opening a socket"))?;
    for direction in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(&socket, direction, Some(target.timeout))
            .map_err(failed("setting a timeout"))?;
    }
    sockopt::set_tcp_nodelay(&socket, true).map_err(failed("setting TCP_NODELAY"))?;
    if let Some(source) = target.source {
        net::bind(&socket, &SocketAddrV4::new(source, 0)).map_err(failed("binding the source address"))?;
    }
    net::connect(&socket, &target.server).map_err(failed("connecting"))?;
    Ok(socket)
}

/// Upgrades a connection in blocking mode to WebSocket: sends the request with `key`, checks status and accept value.
///
/// # Errors
/// When the server does not answer as RFC 6455, section 4.1, asks.
pub fn shake_hands(socket: &OwnedFd, target: &Target, key: [u8; 16]) -> Result<Opened, ConnectError> {
    let key = BASE64.encode(key);
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n",
        target.server
    );
    let mut unsent = request.as_bytes();
    while !unsent.is_empty() {
        match net::send(socket, unsent, net::SendFlags::NOSIGNAL) {
            Ok(sent) => unsent = &unsent[sent..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(ConnectError::Timeout(target.timeout)),
            Err(errno) => return Err(ConnectError::System { step: "sending the handshake", errno }),
        }
    }
    let deadline = Instant::now() + target.timeout;
    let mut answer = Vec::new();
    let mut chunk = [0; 1024];
    let head = loop {
        if let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if answer.len() > LONGEST_ANSWER {
            return Err(ConnectError::Refused(format!("more than {LONGEST_ANSWER} bytes of headers")));
        }
        if Instant::now() > deadline {
            return Err(ConnectError::Timeout(target.timeout));
        }
        match net::recv(socket, &mut chunk, net::RecvFlags::empty()) {
            Ok((0, _)) => return Err(ConnectError::Closed),
            Ok((read, _)) => answer.extend_from_slice(&chunk[..read]),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(ConnectError::Timeout(target.timeout)),
            Err(errno) => return Err(ConnectError::System { step: "reading the handshake", errno }),
        }
    };
    let rest = answer.split_off(head);
    Ok(Opened { extensions: check_answer(&String::from_utf8_lossy(&answer), &key)?, rest })
}

/// Makes reads and writes on a socket return at once (none), or wait for up to `timeout`.
///
/// # Errors
/// When the kernel refuses.
pub fn set_wait(socket: impl AsFd, timeout: Option<Duration>) -> rustix::io::Result<()> {
    if timeout.is_some() {
        for direction in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(&socket, direction, timeout)?;
        }
    }
    rustix::io::ioctl_fionbio(socket, timeout.is_none())
}

/// The value of `Sec-WebSocket-Accept` that answers a key.
fn accept_value(key: &str) -> String {
    BASE64.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// Checks the headers of an answer and returns the extensions.
fn check_answer(answer: &str, key: &str) -> Result<Vec<String>, ConnectError> {
    let mut lines = answer.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("101") || !status.starts_with("HTTP/1.1 ") {
        return Err(ConnectError::Refused(format!("`{}`, not with `HTTP/1.1 101`", excerpt(status))));
    }
    let headers: Vec<(&str, &str)> =
        lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim())).collect();
    let values = |wanted: &'static str| {
        headers.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
    };
    let names = |header, token: &str| {
        values(header).flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
    };
    if !names("Upgrade", "websocket") || !names("Connection", "Upgrade") {
        return Err(ConnectError::Refused("101 but without the headers of an upgrade".to_owned()));
    }
    let expected = accept_value(key);
    match values("Sec-WebSocket-Accept").next() {
        Some(accept) if accept == expected => {}
        Some(accept) => {
            let accept = excerpt(accept);
            return Err(ConnectError::Refused(format!("the accept value `{accept}`, not `{expected}`")));
        }
        None => return Err(ConnectError::Refused("101 but without `Sec-WebSocket-Accept`".to_owned())),
    }
    Ok(values("Sec-WebSocket-Extensions").map(str::to_owned).collect())
}

/// The beginning of a text from the wire, fit for an error message.
fn excerpt(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and accept value of RFC 6455, section 1.3.
    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

    fn refused(answer: &str) -> String {
        check_answer(answer, KEY).unwrap_err().to_string()
    }

    #[test]
    fn the_answer_of_the_rfc_is_accepted_whatever_the_case_of_its_headers() {
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nCONNECTION: keep-alive, upgrade\r\n\
             sec-websocket-accept:{ACCEPT}\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        );
        assert_eq!(check_answer(&answer, KEY).unwrap(), ["permessage-deflate"]);
    }

    #[test]
    fn other_answers_say_what_was_wrong() {
        assert!(refused("HTTP/1.1 404 Not Found\r\n\r\n").contains("`HTTP/1.1 404 Not Found`"));
        assert!(refused("SSH-2.0-OpenSSH\r\n\r\n").contains("SSH-2.0"));
        assert!(
            refused("HTTP/1.1 101 x\r\nSec-WebSocket-Accept: a\r\n\r\n").contains("headers of an upgrade")
        );
        let head = "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
        assert!(refused(&format!("{head}\r\n")).contains("without `Sec-WebSocket-Accept`"));
        assert!(refused(&format!("{head}Sec-WebSocket-Accept: nonsense\r\n\r\n")).contains(ACCEPT));
    }
}
