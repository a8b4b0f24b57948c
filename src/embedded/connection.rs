use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

use super::frame::{CLOSE, FIN, push_frame};

/// Place of a connection in the relay's table.
pub(super) type Slot = usize;

/// What may wait in a queue before its own connection is no longer read, in bytes. Answers to pings are all that a
/// connection adds to its own queue.
const MAX_OWN_BACKLOG: usize = 64 * 1024;
/// How long the other end may take to answer a close.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The opening handshake is not complete.
    Handshake,
    /// Frames are read.
    Open,
    /// A close was sent; what still arrives is thrown away until the other end is done or this moment has come.
    Closing(Instant),
}

/// One connection. Small while idle: every buffer is empty unless something waits in it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) fd: OwnedFd,
    pub(super) phase: Phase,
    pub(super) partner: Option<Slot>,
    /// Payload of the current data frame that is still to come, in bytes.
    pub(super) left: u64,
    /// Masking key of the current frame, turned to its next byte.
    pub(super) key: [u8; 4],
    /// Whether the current message goes nowhere, because it began before there was a partner.
    pub(super) to_nobody: bool,
    /// Whether a message has begun whose final fragment has not.
    pub(super) fragmented: bool,
    /// Payload of the current message so far, in bytes.
    pub(super) message: u64,
    /// Start of a request, of a header or of a control frame whose rest is to come.
    pub(super) spill: Vec<u8>,
    /// What the other end has not taken yet.
    queue: Vec<u8>,
    /// How much of the queue is sent.
    sent: usize,
    /// Answer to the last ping, which waits for the end of the frame that is being forwarded to this connection.
    pub(super) pong: Option<Box<[u8]>>,
    /// Whether the queue ends the connection: its writing side is shut down once it is empty.
    last_words: bool,
    /// What epoll watches for.
    pub(super) watched: EventFlags,
}

impl Connection {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Connection {
            fd,
            phase: Phase::Handshake,
            partner: None,
            left: 0,
            key: [0; 4],
            to_nobody: false,
            fragmented: false,
            message: 0,
            spill: Vec::new(),
            queue: Vec::new(),
            sent: 0,
            pong: None,
            last_words: false,
            watched: EventFlags::IN,
        }
    }

    /// Bytes that the other end has not taken yet.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len() - self.sent
    }

    /// Whether so much waits that reading more from this connection must wait too.
    pub(super) fn is_clogged(&self) -> bool {
        self.backlog() > MAX_OWN_BACKLOG
    }

    /// Whether a frame is being forwarded from this connection, so that nothing may be put between its parts.
    pub(super) fn is_mid_frame(&self) -> bool {
        self.left > 0 && !self.to_nobody
    }

    /// Sends what can be sent at once and queues the rest.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        if self.queue.is_empty() {
            match send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(taken) => rest = &bytes[taken..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.queue.extend_from_slice(rest);
        Ok(())
    }

    /// Sends what is queued. The memory of an emptied queue is given back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.backlog() > 0 {
            match send(&self.fd, &self.queue[self.sent..], SendFlags::NOSIGNAL) {
                Ok(taken) => self.sent += taken,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        self.queue = Vec::new();
        self.sent = 0;
        if self.last_words {
            shutdown(&self.fd, Shutdown::Write)?;
        }
        Ok(())
    }

    /// Says goodbye with a status code (RFC 6455, section 7.4); none where a frame is cut off and no close would be
    /// understood.
    pub(super) fn close(&mut self, code: Option<u16>) -> io::Result<()> {
        if let Some(code) = code {
            let mut frame = Vec::new();
            push_frame(&mut frame, FIN | CLOSE, &code.to_be_bytes());
            self.send(&frame)?;
        }
        self.end()
    }

    /// Ends the writing side once the queue is sent, and begins to wait for the other end.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.phase = Phase::Closing(Instant::now() + CLOSE_GRACE);
        self.last_words = true;
        self.spill = Vec::new();
        self.pong = None;
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Connection>() < 256, "{} bytes", size_of::<Connection>());
    }
}
