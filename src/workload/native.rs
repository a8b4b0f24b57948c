use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::connection::{Arrived, Connection, Handshake, Sent, Surprise};
use super::payload::{End, Tag};
use super::template::Template;
use super::{Mask, Params};
use crate::wire::{
    Assembler, ConnectError, Header, Incoming, MAX_HEADER, Opcode, Target, apply_mask, connect, set_wait,
    shake_hands,
};

/// The most that one read takes: several messages in flight arrive at once, large ones in parts.
const LARGEST_READ: usize = 256 * 1024;
/// The least, so that a message that nobody asked for is seen together with the one before it.
const SMALLEST_READ: usize = 4096;

/// [`Native::matched`] of a connection whose bytes go through [`Slow`].
const NOT_PLAIN: u32 = u32::MAX;

/// A connection of the native generator. It sends prebuilt frames and compares whole reads with prebuilt frames; only
/// what differs is ever parsed.
pub(super) struct Native {
    socket: OwnedFd,
    end: End,
    outgoing: Tag,
    incoming: Tag,
    /// How much of the next expected frame has arrived and was right, in bytes; or [`NOT_PLAIN`].
    matched: u32,
    backlog: Backlog,
    slow: Option<Box<Slow>>,
}

/// Messages that the kernel had no room for. They are rebuilt when there is room, so only their numbers are kept.
#[derive(Default)]
struct Backlog {
    /// Number of the first.
    first: u32,
    /// How many.
    count: u32,
    /// Bytes of the first that were sent.
    offset: u32,
    /// Masking key of the first.
    key: [u8; 4],
}

/// State of a connection that is between frames that are not as expected.
struct Slow {
    assembler: Assembler,
    /// What is to be reported at the next call.
    stashed: Option<Box<Surprise>>,
    /// Pongs that wait for the message before them.
    pongs: Vec<u8>,
}

/// What the connections of one thread share.
pub(super) struct Kit {
    templates: [Template; 2],
    opcode: Opcode,
    inbox: Vec<u8>,
    /// Source of masking keys, and room for a masked frame; none with keys of zero.
    masking: Option<(SmallRng, Vec<u8>)>,
    longest: u64,
}

impl Kit {
    #[inline]
    fn next_key(&mut self) -> [u8; 4] {
        match &mut self.masking {
            None => [0; 4],
            Some((keys, _)) => keys.next_u32().to_ne_bytes(),
        }
    }

    /// The frame of a message, as a client sends it.
    #[inline]
    fn frame(&mut self, end: End, tag: Tag, sequence: u32, key: [u8; 4]) -> &[u8] {
        let template = &mut self.templates[end.index()];
        template.stamp(tag, sequence);
        match &mut self.masking {
            None => template.outgoing(),
            Some((_, masked)) => {
                masked.copy_from_slice(template.outgoing());
                let header = template.outgoing_header_len();
                masked[header - 4..header].copy_from_slice(&key);
                apply_mask(&mut masked[header..], key);
                masked
            }
        }
    }
}

/// A seed that no two processes or connections share; keys need not be secret on the loopback network.
fn seed(salt: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    now ^ u64::from(std::process::id()) << 40 ^ salt << 20
}

impl Connection for Native {
    type Kit = Kit;

    fn versions() -> BTreeMap<String, String> {
        BTreeMap::from([("runner".to_owned(), env!("CARGO_PKG_VERSION").to_owned())])
    }

    fn kit(params: &Params) -> Kit {
        let opcode = params.opcode.into();
        let len = params.payload as usize;
        let templates = End::BOTH.map(|end| Template::new(end, opcode, len));
        let in_flight = templates[0].arriving_len().saturating_mul(params.in_flight as usize);
        let masking = match params.mask {
            Mask::Zero => None,
            Mask::Random => {
                let room = templates[0].outgoing().len();
                Some((SmallRng::seed_from_u64(seed(0)), vec![0; room]))
            }
        };
        let inbox = vec![0; (in_flight + 1).clamp(SMALLEST_READ, LARGEST_READ)];
        Kit { templates, opcode, inbox, masking, longest: params.payload.saturating_mul(2).max(1 << 20) }
    }

    fn open(target: &Target, end: End, pair: u32) -> Result<(Self, Handshake), ConnectError> {
        let socket = connect(target)?;
        let mut key = [0; 16];
        SmallRng::seed_from_u64(seed(u64::from(pair) * 2 + end.index() as u64)).fill_bytes(&mut key);
        let opened = shake_hands(&socket, target, key)?;
        set_wait(&socket, None)
            .map_err(|errno| ConnectError::System { step: "making a socket non-blocking", errno })?;
        let mut connection = Native {
            socket,
            end,
            outgoing: Tag::new(end, pair),
            incoming: Tag::new(end.partner(), pair),
            matched: 0,
            backlog: Backlog::default(),
            slow: None,
        };
        if !opened.rest.is_empty() {
            connection.slow_mode(u64::MAX, &[]).assembler.push(&opened.rest);
        }
        Ok((connection, Handshake { extensions: opened.extensions }))
    }

    #[inline]
    fn send(&mut self, kit: &mut Kit, sequence: u32) -> Result<Sent, Box<Surprise>> {
        if self.backlog.count != 0 {
            self.backlog.count += 1;
            return self.flush(kit);
        }
        let key = kit.next_key();
        let frame = kit.frame(self.end, self.outgoing, sequence, key);
        match send(&self.socket, frame, SendFlags::NOSIGNAL) {
            Ok(sent) if sent == frame.len() => Ok(Sent::Whole),
            outcome => self.send_rest(kit, sequence, key, outcome),
        }
    }

    #[cold]
    fn flush(&mut self, kit: &mut Kit) -> Result<Sent, Box<Surprise>> {
        while self.backlog.count != 0 {
            let frame = kit.frame(self.end, self.outgoing, self.backlog.first, self.backlog.key);
            match send(&self.socket, &frame[self.backlog.offset as usize..], SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.backlog.offset += sent as u32;
                    if self.backlog.offset as usize == frame.len() {
                        self.backlog = Backlog {
                            first: self.backlog.first.wrapping_add(1),
                            count: self.backlog.count - 1,
                            offset: 0,
                            key: kit.next_key(),
                        };
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Sent::Queued),
                Err(errno) => return Err(broken(errno)),
            }
        }
        if let Some(slow) = &mut self.slow {
            while !slow.pongs.is_empty() {
                match send(&self.socket, &slow.pongs, SendFlags::NOSIGNAL) {
                    Ok(sent) => drop(slow.pongs.drain(..sent)),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Ok(Sent::Queued),
                    Err(errno) => return Err(broken(errno)),
                }
            }
        }
        Ok(Sent::Whole)
    }

    #[inline]
    fn receive(&mut self, kit: &mut Kit, expected: u32, limit: u32) -> Result<u32, Box<Surprise>> {
        if self.matched == NOT_PLAIN {
            return self.receive_slow(kit, expected, limit);
        }
        let read = match recv(&self.socket, &mut kit.inbox[..], RecvFlags::empty()) {
            Ok((read, _)) => read,
            Err(Errno::AGAIN) => return Ok(0),
            Err(errno) => return nothing(errno),
        };
        let template = &mut kit.templates[self.end.partner().index()];
        template.stamp(self.incoming, expected);
        if self.matched == 0 && limit != 0 && template.is_whole(&kit.inbox[..read]) {
            return Ok(1);
        }
        self.receive_parts(kit, read, expected, limit)
    }

    fn next_message(&mut self, kit: &mut Kit, expected: u32) -> Result<Option<Arrived>, Box<Surprise>> {
        if self.matched != NOT_PLAIN {
            // What has matched so far is not at hand any more, but it is known.
            let template = &mut kit.templates[self.end.partner().index()];
            template.stamp(self.incoming, expected);
            let known = template.arriving();
            self.slow_mode(kit.longest, &known);
        }
        loop {
            match self.read_slow(kit)? {
                Some(arrived) => return Ok(Some(arrived)),
                None => match recv(&self.socket, &mut kit.inbox[..], RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return Err(end_of_stream()),
                    Ok((read, _)) => self.slow_mode(kit.longest, &[]).assembler.push(&kit.inbox[..read]),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => {
                        self.leave_slow_mode();
                        return Ok(None);
                    }
                    Err(errno) => return Err(broken(errno)),
                },
            }
        }
    }

    fn close(self) {
        if self.backlog.count == 0 {
            // Code 1000, with a key of zeros. A server that does not take it sees the end of the stream.
            let _ = send(&self.socket, &[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8], SendFlags::NOSIGNAL);
        }
    }
}

impl AsFd for Native {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Native {
    /// Keeps what the kernel did not take of a message.
    #[cold]
    fn send_rest(
        &mut self,
        kit: &mut Kit,
        sequence: u32,
        key: [u8; 4],
        outcome: Result<usize, Errno>,
    ) -> Result<Sent, Box<Surprise>> {
        let offset = match outcome {
            Ok(sent) => sent as u32,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(errno) => return Err(broken(errno)),
        };
        self.backlog = Backlog { first: sequence, count: 1, offset, key };
        self.flush(kit)
    }

    /// Compares a read that is not just the expected frame: parts of frames, or several of them. No parsing and no
    /// buffering: a prefix that has matched needs no more than its length to be remembered.
    #[inline(never)]
    fn receive_parts(
        &mut self,
        kit: &mut Kit,
        read: usize,
        expected: u32,
        limit: u32,
    ) -> Result<u32, Box<Surprise>> {
        if read == 0 {
            return Err(end_of_stream());
        }
        let template = &mut kit.templates[self.end.partner().index()];
        let len = template.arriving_len();
        let (mut at, mut count) = (0, 0);
        while at < read && count < limit {
            template.stamp(self.incoming, expected.wrapping_add(count));
            let part = (len - self.matched as usize).min(read - at);
            if !template.goes_on(self.matched as usize, &kit.inbox[at..at + part]) {
                break;
            }
            at += part;
            self.matched += part as u32;
            if self.matched as usize == len {
                self.matched = 0;
                count += 1;
            }
        }
        if at < read {
            let known = template.arriving();
            self.slow_mode(kit.longest, &known).assembler.push(&kit.inbox[at..read]);
            if count == 0 {
                return self.receive_slow(kit, expected, limit);
            }
        }
        Ok(count)
    }

    /// Goes over to parsing. `known` is the frame of which [`Native::matched`] bytes have arrived.
    #[cold]
    fn slow_mode(&mut self, longest: u64, known: &[u8]) -> &mut Slow {
        let matched = std::mem::replace(&mut self.matched, NOT_PLAIN);
        let slow = self.slow.get_or_insert_with(|| {
            Box::new(Slow { assembler: Assembler::new(longest), stashed: None, pongs: Vec::new() })
        });
        if matched != NOT_PLAIN && matched != 0 {
            slow.assembler.push(&known[..matched as usize]);
        }
        slow
    }

    /// Back to comparing whole frames, where nothing is left over.
    fn leave_slow_mode(&mut self) {
        if let Some(slow) = &self.slow
            && slow.assembler.is_idle()
            && slow.stashed.is_none()
            && slow.pongs.is_empty()
        {
            self.matched = 0;
        }
    }

    /// The next message among the bytes at hand; answers pings.
    #[cold]
    fn read_slow(&mut self, kit: &mut Kit) -> Result<Option<Arrived>, Box<Surprise>> {
        loop {
            let Some(slow) = &mut self.slow else { return Ok(None) };
            if let Some(stashed) = slow.stashed.take() {
                return match *stashed {
                    Surprise::Message(arrived) => Ok(Some(arrived)),
                    other => Err(Box::new(other)),
                };
            }
            match slow.assembler.next_incoming() {
                Ok(None) => return Ok(None),
                Ok(Some(Incoming::Message { opcode, payload })) => {
                    return Ok(Some(Arrived { opcode, payload }));
                }
                Ok(Some(Incoming::Ping(payload))) => {
                    let mut header = [0; MAX_HEADER];
                    let pong = Header {
                        fin: true,
                        opcode: Opcode::Pong,
                        mask: Some([0; 4]),
                        len: payload.len() as u64,
                    };
                    let len = pong.encode(&mut header);
                    slow.pongs.extend_from_slice(&header[..len]);
                    slow.pongs.extend_from_slice(&payload);
                    self.flush(kit)?;
                }
                Ok(Some(Incoming::Close { code, reason })) => {
                    let code = code.map_or("without a code".to_owned(), |code| format!("with code {code}"));
                    let reason = if reason.is_empty() { reason } else { format!(" (`{reason}`)") };
                    return Err(Box::new(Surprise::Closed(format!("closed the connection {code}{reason}"))));
                }
                Err(error) => return Err(Box::new(Surprise::Protocol(error.to_string()))),
            }
        }
    }

    /// [`Connection::receive`] by parsing.
    #[cold]
    #[inline(never)]
    fn receive_slow(&mut self, kit: &mut Kit, expected: u32, limit: u32) -> Result<u32, Box<Surprise>> {
        let mut count = 0;
        let mut may_read = true;
        loop {
            let surprise = match self.read_slow(kit) {
                Ok(Some(arrived)) => {
                    let template = &mut kit.templates[self.end.partner().index()];
                    template.stamp(self.incoming, expected.wrapping_add(count));
                    if count < limit && arrived.opcode == kit.opcode && arrived.payload == template.payload()
                    {
                        count += 1;
                        continue;
                    }
                    Box::new(Surprise::Message(arrived))
                }
                Ok(None) if may_read && count == 0 => {
                    may_read = false;
                    match recv(&self.socket, &mut kit.inbox[..], RecvFlags::empty()) {
                        Ok((0, _)) => return Err(end_of_stream()),
                        Ok((read, _)) => {
                            self.slow_mode(kit.longest, &[]).assembler.push(&kit.inbox[..read]);
                            continue;
                        }
                        Err(errno) => return nothing(errno),
                    }
                }
                Ok(None) => {
                    self.leave_slow_mode();
                    return Ok(count);
                }
                Err(surprise) => surprise,
            };
            if count == 0 {
                return Err(surprise);
            }
            // The good ones first; this at the next call.
            self.slow_mode(kit.longest, &[]).stashed = Some(surprise);
            return Ok(count);
        }
    }
}

/// A read that found nothing, or the end of the connection.
#[cold]
fn nothing(errno: Errno) -> Result<u32, Box<Surprise>> {
    match errno {
        Errno::AGAIN | Errno::INTR => Ok(0),
        other => Err(broken(other)),
    }
}

#[cold]
fn end_of_stream() -> Box<Surprise> {
    Box::new(Surprise::Closed("closed the connection without a close frame".to_owned()))
}

#[cold]
fn broken(errno: Errno) -> Box<Surprise> {
    Box::new(Surprise::Closed(format!("broke the connection: {errno}")))
}
