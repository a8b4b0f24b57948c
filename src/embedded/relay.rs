use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};

use super::connection::{Connection, Phase, Slot};
use super::frame::{CLOSE, MAX_CONTROL, MAX_HEADER, Parsed, parse};
use super::handshake::{Answer, answer};
use super::hook::{Hook, Outbox};

/// Size of the one buffer that all connections are read into, in bytes.
const READ_BUFFER: usize = 256 * 1024;
/// Most that a spill can hold once the handshake is over: a control frame but for its last byte.
const MAX_SPILL: usize = 8 * 1024 + MAX_HEADER + MAX_CONTROL;
/// Events taken from epoll at once.
const EVENTS: usize = 256;

const LISTENER: u64 = u64::MAX;
const LIFE: u64 = u64::MAX - 1;

/// Status code of an end that is done (RFC 6455, section 7.4.1).
pub(super) const NORMAL: u16 = 1000;
/// Status code of an end whose partner is gone.
pub(super) const GOING_AWAY: u16 = 1001;

/// How the relay waits for something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Sleeps in the kernel.
    Block,
    /// Asks again at once.
    Spin,
}

/// A relay: pairs connections in the order in which their handshakes complete, and forwards each message to the
/// partner only.
///
/// Frames are unmasked where they lie in the one read buffer and leave from there: an unmasked header is four bytes
/// shorter than a masked one, so that output never overtakes input. A frame is forwarded as it arrives, so that a
/// large message needs no buffer of its own.
pub(super) struct Relay<H> {
    epoll: OwnedFd,
    listener: TcpListener,
    /// Ends the loop when it becomes readable.
    _life: OwnedFd,
    pub(super) table: Vec<Option<Connection>>,
    /// Slots that may be used again.
    free: Vec<Slot>,
    /// Slots that may be used again after the current batch of events, which may still name them.
    freed: Vec<Slot>,
    waiting: Option<Slot>,
    /// Connections that a close was sent to, oldest first.
    closing: VecDeque<Slot>,
    pub(super) hook: H,
    pub(super) outbox: Outbox,
}

/// Whether a connection is still worth reading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It is.
    Continue,
    /// It is closing or gone.
    Stop,
}

impl<H: Hook> Relay<H> {
    /// A relay on a listening socket. `life` is a descriptor whose readiness ends [`Relay::run`].
    pub(super) fn new(listener: TcpListener, life: OwnedFd, hook: H) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &life, EventData::new_u64(LIFE), EventFlags::IN)?;
        Ok(Relay {
            epoll,
            listener,
            _life: life,
            table: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            waiting: None,
            closing: VecDeque::new(),
            hook,
            outbox: Outbox::default(),
        })
    }

    /// Serves until the life descriptor says that it is enough.
    pub(super) fn run(&mut self, wait: Wait) -> io::Result<()> {
        let mut buffer = vec![0; READ_BUFFER + MAX_SPILL];
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
        loop {
            let timeout = match wait {
                Wait::Spin => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
                Wait::Block => self.timeout(),
            };
            let ready = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
                Ok(ready) => ready,
                Err(Errno::INTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in &events[..ready] {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    LIFE => return Ok(()),
                    slot => self.serve(slot as Slot, event.flags, &mut buffer),
                }
            }
            self.free.append(&mut self.freed);
            if H::ACTIVE && self.hook.wake_after().is_some_and(|after| after.is_zero()) {
                self.hook.wake(&mut self.outbox);
                self.deliver();
            }
            if !self.closing.is_empty() {
                self.give_up_on_silent_ends();
            }
        }
    }

    /// Until the next thing that must be done without an event.
    fn timeout(&self) -> Option<Timespec> {
        let closing = self.closing.iter().find_map(|slot| match self.table[*slot].as_ref()?.phase {
            Phase::Closing(until) => Some(until.saturating_duration_since(Instant::now())),
            _ => None,
        });
        let wake = if H::ACTIVE { self.hook.wake_after() } else { None };
        let least = match (closing, wake) {
            (Some(one), Some(other)) => one.min(other),
            (one, other) => one.or(other)?,
        };
        // A little later rather than a little too early: a timeout of 0 would be asked for again and again.
        Timespec::try_from(least + Duration::from_micros(100)).ok()
    }

    fn accept(&mut self) {
        // Bounded, so that a flood of connections does not starve those that are open.
        for _ in 0..64 {
            // An error here concerns one connection that has gone already, or passes with time.
            let Ok(fd) = accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) else {
                return;
            };
            if set_tcp_nodelay(&fd, true).is_err() {
                continue;
            }
            let slot = self.free.pop().unwrap_or_else(|| {
                self.table.push(None);
                self.table.len() - 1
            });
            let added = epoll::add(&self.epoll, &fd, EventData::new_u64(slot as u64), EventFlags::IN);
            match added {
                Ok(()) => self.table[slot] = Some(Connection::new(fd)),
                Err(_) => self.free.push(slot),
            }
        }
    }

    fn serve(&mut self, slot: Slot, flags: EventFlags, buffer: &mut [u8]) {
        let Some(connection) = self.table[slot].as_mut() else { return };
        if flags.contains(EventFlags::OUT) {
            if connection.flush().is_err() {
                return self.lost(slot);
            }
            self.watch(slot);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            && self.table[slot].as_ref().is_some_and(|connection| {
                connection.watched.contains(EventFlags::IN) || !flags.contains(EventFlags::IN)
            })
        {
            self.read(slot, buffer);
        }
    }

    fn read(&mut self, slot: Slot, buffer: &mut [u8]) {
        let Some(connection) = self.table[slot].as_mut() else { return };
        let spilled = connection.spill.len();
        if spilled > 0 {
            buffer[..spilled].copy_from_slice(&connection.spill);
            connection.spill = Vec::new();
        }
        let end = match recv(&connection.fd, &mut buffer[spilled..spilled + READ_BUFFER], RecvFlags::empty())
        {
            Ok((_, 0)) => return self.lost(slot),
            Ok((_, read)) => spilled + read,
            Err(Errno::AGAIN | Errno::INTR) => {
                connection.spill.extend_from_slice(&buffer[..spilled]);
                return;
            }
            Err(_) => return self.lost(slot),
        };
        match connection.phase {
            Phase::Open => self.frames(slot, &mut buffer[..end]),
            Phase::Handshake => self.handshake(slot, &mut buffer[..end]),
            Phase::Closing(_) => self.after_close(slot, &buffer[..end]),
        }
    }

    fn handshake(&mut self, slot: Slot, bytes: &mut [u8]) {
        let connection = self.table[slot].as_mut().expect("the caller has looked");
        match answer(bytes, H::EXTENSION) {
            Answer::Incomplete => connection.spill.extend_from_slice(bytes),
            Answer::Refuse(response) => {
                let ended = connection.send(&response).and_then(|()| connection.end());
                self.ended(slot, ended);
            }
            Answer::Accept { response, request_len } => {
                // Paired before it is told: when a client hears that it is connected its place is settled.
                connection.phase = Phase::Open;
                match self.waiting.take() {
                    None => self.waiting = Some(slot),
                    Some(other) => {
                        connection.partner = Some(other);
                        if let Some(other) = self.table[other].as_mut() {
                            other.partner = Some(slot);
                        }
                    }
                }
                if self.send(slot, &response) == Next::Continue && request_len < bytes.len() {
                    self.frames(slot, &mut bytes[request_len..]);
                }
            }
        }
    }

    pub(super) fn deliver(&mut self) {
        for (to, bytes) in std::mem::take(&mut self.outbox.frames) {
            if self
                .table
                .get(to)
                .is_some_and(|entry| entry.as_ref().is_some_and(|connection| connection.phase == Phase::Open))
            {
                self.send(to, &bytes);
            }
        }
    }

    /// Sends to one connection; what it does not take is queued, and its partner is not read until it did.
    #[inline]
    pub(super) fn send(&mut self, slot: Slot, bytes: &[u8]) -> Next {
        let Some(connection) = self.table[slot].as_mut() else { return Next::Stop };
        if connection.send(bytes).is_err() {
            self.lost(slot);
            return Next::Stop;
        }
        if connection.backlog() > 0 {
            self.watch(slot);
        }
        Next::Continue
    }

    /// Makes epoll watch for what a connection and its partner can do now.
    #[cold]
    fn watch(&mut self, slot: Slot) {
        let partner = self.table[slot].as_ref().and_then(|connection| connection.partner);
        for slot in [Some(slot), partner].into_iter().flatten() {
            let Some(connection) = self.table[slot].as_ref() else { continue };
            let partner_is_full = connection.phase == Phase::Open
                && connection
                    .partner
                    .and_then(|partner| self.table[partner].as_ref())
                    .is_some_and(|partner| partner.backlog() > 0);
            let mut wanted = EventFlags::empty();
            wanted.set(EventFlags::IN, !partner_is_full && !connection.is_clogged());
            wanted.set(EventFlags::OUT, connection.backlog() > 0);
            let connection = self.table[slot].as_mut().expect("it was there");
            if connection.watched != wanted {
                connection.watched = wanted;
                let data = EventData::new_u64(slot as u64);
                epoll::modify(&self.epoll, connection.fd.as_fd(), data, wanted)
                    .expect("an open descriptor is in the set");
            }
        }
    }

    /// Closes a connection and its partner.
    pub(super) fn close(&mut self, slot: Slot, code: u16) {
        let partner = self.part(slot);
        // What is being forwarded to either cannot be completed, and no close may stand inside a frame.
        let to_self_cut =
            partner.and_then(|partner| self.table[partner].as_ref()).is_some_and(Connection::is_mid_frame);
        let to_partner_cut = self.table[slot].as_ref().is_some_and(Connection::is_mid_frame);
        if let Some(partner) = partner {
            let theirs = if code == NORMAL { NORMAL } else { GOING_AWAY };
            self.say_goodbye(partner, Some(theirs).filter(|_| !to_partner_cut));
        }
        self.say_goodbye(slot, Some(code).filter(|_| !to_self_cut));
    }

    /// A connection is gone without a word; its partner goes with it.
    fn lost(&mut self, slot: Slot) {
        let partner = self.part(slot);
        let cut = self.table[slot].as_ref().is_some_and(Connection::is_mid_frame);
        self.forget(slot);
        if let Some(partner) = partner {
            self.say_goodbye(partner, Some(GOING_AWAY).filter(|_| !cut));
        }
    }

    /// Takes a connection out of its pair, or out of the queue for one.
    fn part(&mut self, slot: Slot) -> Option<Slot> {
        if self.waiting == Some(slot) {
            self.waiting = None;
        }
        let partner = self.table[slot].as_mut().and_then(|connection| connection.partner.take());
        if let Some(other) = partner.and_then(|partner| self.table[partner].as_mut()) {
            other.partner = None;
        }
        partner
    }

    fn say_goodbye(&mut self, slot: Slot, code: Option<u16>) {
        if let Some(connection) = self.table[slot].as_mut() {
            let ended = connection.close(code);
            self.ended(slot, ended);
        }
    }

    fn ended(&mut self, slot: Slot, result: io::Result<()>) {
        match result {
            Ok(()) => {
                self.closing.push_back(slot);
                self.watch(slot);
            }
            Err(_) => self.forget(slot),
        }
    }

    /// Reads on after a close was sent: the answer to it ends the wait.
    fn after_close(&mut self, slot: Slot, bytes: &[u8]) {
        if let Parsed::Whole(header) = parse(bytes)
            && header.opcode() == CLOSE
            && self.table[slot].as_ref().is_some_and(|connection| connection.backlog() == 0)
        {
            self.forget(slot);
        }
    }

    fn give_up_on_silent_ends(&mut self) {
        let now = Instant::now();
        while let Some(slot) = self.closing.front().copied() {
            match self.table[slot].as_ref().map(|connection| connection.phase) {
                Some(Phase::Closing(until)) if until > now => return,
                Some(Phase::Closing(_)) => self.forget(slot),
                _ => {}
            }
            self.closing.pop_front();
        }
        self.free.append(&mut self.freed);
    }

    pub(super) fn forget(&mut self, slot: Slot) {
        // Closing the descriptor takes it out of epoll's set.
        if self.table[slot].take().is_some() {
            self.freed.push(slot);
        }
    }
}
