use super::{FrameError, Header, Opcode};

/// What a server sent, put together from its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A whole message.
    Message {
        /// [`Opcode::Text`] or [`Opcode::Binary`].
        opcode: Opcode,
        /// Its payload, joined from all its fragments.
        payload: Vec<u8>,
    },
    /// A ping, which wants a pong with the same payload.
    Ping(Vec<u8>),
    /// The server closes the connection.
    Close {
        /// Its code; none when it gave none.
        code: Option<u16>,
        /// Its reason, as far as it is UTF-8.
        reason: String,
    },
}

/// Reads any legal sequence of server frames, whatever the sizes of the reads: the slow path.
#[derive(Debug)]
pub struct Assembler {
    bytes: Vec<u8>,
    /// The fragments so far of a message that has begun.
    begun: Option<(Opcode, Vec<u8>)>,
    longest: u64,
}

impl Assembler {
    /// One that takes messages of up to `longest` bytes.
    pub fn new(longest: u64) -> Self {
        Assembler { bytes: Vec::new(), begun: None, longest }
    }

    /// Adds what has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether it stands between two messages with nothing left over.
    pub fn is_idle(&self) -> bool {
        self.bytes.is_empty() && self.begun.is_none()
    }

    /// The next thing that is complete; none while bytes are missing.
    ///
    /// # Errors
    /// When the server broke the protocol. Nothing after that can be read.
    pub fn next_incoming(&mut self) -> Result<Option<Incoming>, FrameError> {
        loop {
            let Some((header, start)) = Header::decode(&self.bytes)? else { return Ok(None) };
            if header.mask.is_some() {
                return Err(FrameError::Masked);
            }
            let already = self.begun.as_ref().map_or(0, |(_, payload)| payload.len() as u64);
            if header.len > self.longest.saturating_sub(already) && !header.opcode.is_control() {
                return Err(FrameError::TooLong(header.len.saturating_add(already)));
            }
            let end = start + header.len as usize;
            if self.bytes.len() < end {
                return Ok(None);
            }
            let payload = self.bytes[start..end].to_vec();
            self.bytes.drain(..end);
            match header.opcode {
                Opcode::Pong => continue,
                Opcode::Ping => return Ok(Some(Incoming::Ping(payload))),
                Opcode::Close => {
                    let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default()).into_owned();
                    return Ok(Some(Incoming::Close { code, reason }));
                }
                Opcode::Text | Opcode::Binary if self.begun.is_none() => {
                    if header.fin {
                        return Ok(Some(Incoming::Message { opcode: header.opcode, payload }));
                    }
                    self.begun = Some((header.opcode, payload));
                }
                Opcode::Continuation => {
                    let Some((opcode, mut joined)) = self.begun.take() else {
                        return Err(FrameError::FragmentOutOfPlace);
                    };
                    joined.extend_from_slice(&payload);
                    if header.fin {
                        return Ok(Some(Incoming::Message { opcode, payload: joined }));
                    }
                    self.begun = Some((opcode, joined));
                }
                Opcode::Text | Opcode::Binary => return Err(FrameError::FragmentOutOfPlace),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::MAX_HEADER;

    fn frame(fin: bool, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let mut header = [0; MAX_HEADER];
        let len = Header { fin, opcode, mask: None, len: payload.len() as u64 }.encode(&mut header);
        [&header[..len], payload].concat()
    }

    #[test]
    fn a_ping_inside_a_fragmented_message_is_seen_first() {
        let mut assembler = Assembler::new(100);
        assembler.push(&frame(false, Opcode::Text, b"he"));
        assembler.push(&frame(true, Opcode::Ping, b"p"));
        assembler.push(&frame(true, Opcode::Pong, b"ignored"));
        assembler.push(&frame(true, Opcode::Continuation, b"llo"));
        assert_eq!(assembler.next_incoming(), Ok(Some(Incoming::Ping(b"p".to_vec()))));
        assert!(!assembler.is_idle());
        let message = Incoming::Message { opcode: Opcode::Text, payload: b"hello".to_vec() };
        assert_eq!(assembler.next_incoming(), Ok(Some(message)));
        assert!(assembler.is_idle());
    }

    #[test]
    fn a_close_gives_its_code_and_reason() {
        let mut assembler = Assembler::new(100);
        assembler.push(&frame(true, Opcode::Close, b"\x03\xE9bye"));
        assembler.push(&frame(true, Opcode::Close, b""));
        assert_eq!(
            assembler.next_incoming(),
            Ok(Some(Incoming::Close { code: Some(1001), reason: "bye".to_owned() }))
        );
        assert_eq!(
            assembler.next_incoming(),
            Ok(Some(Incoming::Close { code: None, reason: String::new() }))
        );
    }

    #[test]
    fn broken_sequences_are_refused() {
        let refused = |frames: &[Vec<u8>]| {
            let mut assembler = Assembler::new(4);
            frames.iter().for_each(|frame| assembler.push(frame));
            assembler.next_incoming().unwrap_err()
        };
        let begin = frame(false, Opcode::Binary, b"abc");
        assert_eq!(refused(&[frame(true, Opcode::Continuation, b"")]), FrameError::FragmentOutOfPlace);
        assert_eq!(refused(&[begin.clone(), frame(true, Opcode::Text, b"")]), FrameError::FragmentOutOfPlace);
        assert_eq!(refused(&[begin, frame(true, Opcode::Continuation, b"de")]), FrameError::TooLong(5));
        assert_eq!(refused(&[vec![0x82, 0x80, 1, 2, 3, 4]]), FrameError::Masked);
    }

    proptest! {
        #[test]
        fn messages_survive_any_fragmentation_and_any_sizes_of_reads(
            messages in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..400)), 1..5),
            fragment in 1..300usize,
            read in 1..500usize,
        ) {
            let mut wire = Vec::new();
            for (text, payload) in &messages {
                let mut opcode = if *text { Opcode::Text } else { Opcode::Binary };
                let pieces: Vec<&[u8]> =
                    if payload.is_empty() { vec![&[]] } else { payload.chunks(fragment).collect() };
                for (i, piece) in pieces.iter().enumerate() {
                    wire.extend(frame(i + 1 == pieces.len(), opcode, piece));
                    opcode = Opcode::Continuation;
                }
            }
            let mut assembler = Assembler::new(400);
            let mut seen = Vec::new();
            for piece in wire.chunks(read) {
                assembler.push(piece);
                while let Some(incoming) = assembler.next_incoming().unwrap() {
                    seen.push(incoming);
                }
            }
            let sent: Vec<Incoming> = messages
                .into_iter()
                .map(|(text, payload)| Incoming::Message {
                    opcode: if text { Opcode::Text } else { Opcode::Binary },
                    payload,
                })
                .collect();
            prop_assert_eq!(seen, sent);
            prop_assert!(assembler.is_idle());
        }
    }
}
