use thiserror::Error;

/// The longest header: two bytes, a 64-bit length, a masking key.
pub const MAX_HEADER: usize = 14;

/// The opcode of a frame (RFC 6455, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// Goes on with a fragmented message.
    Continuation,
    /// A text message, or its first fragment.
    Text,
    /// A binary message, or its first fragment.
    Binary,
    /// Closes the connection.
    Close,
    /// Asks for a pong.
    Ping,
    /// Answers a ping.
    Pong,
}

impl Opcode {
    /// The four bits on the wire.
    pub fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0x0,
            Opcode::Text => 0x1,
            Opcode::Binary => 0x2,
            Opcode::Close => 0x8,
            Opcode::Ping => 0x9,
            Opcode::Pong => 0xA,
        }
    }

    /// The opcode of these four bits.
    ///
    /// # Errors
    /// For the bits that RFC 6455 reserves.
    pub fn from_bits(bits: u8) -> Result<Self, FrameError> {
        Ok(match bits {
            0x0 => Opcode::Continuation,
            0x1 => Opcode::Text,
            0x2 => Opcode::Binary,
            0x8 => Opcode::Close,
            0x9 => Opcode::Ping,
            0xA => Opcode::Pong,
            _ => return Err(FrameError::ReservedOpcode(bits)),
        })
    }

    /// Whether it is a close, ping or pong.
    pub fn is_control(self) -> bool {
        self.bits() & 0x8 != 0
    }
}

/// What a peer may not send.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// An opcode without a meaning.
    #[error("a frame with the reserved opcode {0:#x}")]
    ReservedOpcode(u8),
    /// A reserved bit, which only a negotiated extension may set.
    #[error("a frame with reserved bits set (first byte {0:#04x})")]
    ReservedBits(u8),
    /// A masked frame; only clients mask.
    #[error("a masked frame from a server")]
    Masked,
    /// A control frame that is fragmented or longer than 125 bytes.
    #[error("a control frame that is fragmented or longer than 125 bytes")]
    BadControl,
    /// A continuation without a beginning, or a new message inside a fragmented one.
    #[error("a fragment out of place")]
    FragmentOutOfPlace,
    /// More than this client takes.
    #[error("a message of {0} bytes, more than any that was sent")]
    TooLong(u64),
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whether it ends its message.
    pub fin: bool,
    /// Its opcode.
    pub opcode: Opcode,
    /// The masking key; clients always have one.
    pub mask: Option<[u8; 4]>,
    /// Length of the payload, in bytes.
    pub len: u64,
}

impl Header {
    /// Writes it to the front of `out`, with the shortest form of the length, and returns its own length.
    pub fn encode(&self, out: &mut [u8; MAX_HEADER]) -> usize {
        let mask_bit = if self.mask.is_some() { 0x80 } else { 0 };
        out[0] = if self.fin { 0x80 } else { 0 } | self.opcode.bits();
        let mut at = 2;
        if self.len < 126 {
            out[1] = mask_bit | self.len as u8;
        } else if self.len <= u64::from(u16::MAX) {
            out[1] = mask_bit | 126;
            out[2..4].copy_from_slice(&(self.len as u16).to_be_bytes());
            at = 4;
        } else {
            out[1] = mask_bit | 127;
            out[2..10].copy_from_slice(&self.len.to_be_bytes());
            at = 10;
        }
        if let Some(key) = self.mask {
            out[at..at + 4].copy_from_slice(&key);
            at += 4;
        }
        at
    }

    /// Reads it from the front of `bytes`: the header and its length, or none while bytes are missing. Lengths in a
    /// longer form than needed are taken as they are: they arrive unaltered all the same.
    ///
    /// # Errors
    /// When no peer may send such a header.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Header, usize)>, FrameError> {
        let [first, second, ..] = *bytes else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(FrameError::ReservedBits(first));
        }
        let fin = first & 0x80 != 0;
        let opcode = Opcode::from_bits(first & 0x0F)?;
        let (len, mut at) = match second & 0x7F {
            126 => match bytes.get(2..4).and_then(|field| field.try_into().ok()) {
                Some(field) => (u64::from(u16::from_be_bytes(field)), 4),
                None => return Ok(None),
            },
            127 => match bytes.get(2..10).and_then(|field| field.try_into().ok()) {
                Some(field) => (u64::from_be_bytes(field), 10),
                None => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        if opcode.is_control() && (!fin || len > 125) {
            return Err(FrameError::BadControl);
        }
        let mut mask = None;
        if second & 0x80 != 0 {
            match bytes.get(at..at + 4).and_then(|key| key.try_into().ok()) {
                Some(key) => mask = Some(key),
                None => return Ok(None),
            }
            at += 4;
        }
        Ok(Some((Header { fin, opcode, mask, len }, at)))
    }
}

/// Masks or unmasks in place (RFC 6455, section 5.3), eight bytes at a time.
pub fn apply_mask(payload: &mut [u8], key: [u8; 4]) {
    let [a, b, c, d] = key;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (chunks, rest) = payload.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(header: &Header) -> Vec<u8> {
        let mut out = [0; MAX_HEADER];
        let len = header.encode(&mut out);
        out[..len].to_vec()
    }

    #[test]
    fn the_examples_of_the_rfc_decode() {
        // RFC 6455, section 5.7: a masked "Hello", 256 bytes and 64 KiB of binary data.
        let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        let (header, len) = Header::decode(&masked).unwrap().unwrap();
        assert_eq!(
            (header.fin, header.opcode, header.mask, header.len, len),
            (true, Opcode::Text, Some([0x37, 0xfa, 0x21, 0x3d]), 5, 6)
        );
        let mut payload = masked[6..].to_vec();
        apply_mask(&mut payload, [0x37, 0xfa, 0x21, 0x3d]);
        assert_eq!(payload, b"Hello");
        let (header, len) = Header::decode(&[0x82, 0x7E, 0x01, 0x00]).unwrap().unwrap();
        assert_eq!((header.len, len), (256, 4));
        let (header, len) = Header::decode(&[0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0]).unwrap().unwrap();
        assert_eq!((header.len, len), (65_536, 10));
    }

    #[test]
    fn lengths_take_the_shortest_form_at_each_boundary() {
        for (len, size) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10), (u64::MAX >> 1, 10)] {
            let header = Header { fin: true, opcode: Opcode::Binary, mask: None, len };
            assert_eq!(encoded(&header).len(), size, "{len}");
        }
    }

    #[test]
    fn what_no_server_may_send_is_refused() {
        assert_eq!(Header::decode(&[0xC1, 0]), Err(FrameError::ReservedBits(0xC1)));
        assert_eq!(Header::decode(&[0x83, 0]), Err(FrameError::ReservedOpcode(3)));
        assert_eq!(Header::decode(&[0x09, 0]), Err(FrameError::BadControl));
        assert_eq!(Header::decode(&[0x89, 126, 0, 126]), Err(FrameError::BadControl));
    }

    proptest! {
        #[test]
        fn a_header_survives_the_wire(
            fin: bool,
            text: bool,
            mask: Option<[u8; 4]>,
            len in prop_oneof![0..130u64, 65_530..65_540u64, any::<u64>()],
        ) {
            let header = Header { fin, opcode: if text { Opcode::Text } else { Opcode::Binary }, mask, len };
            let bytes = encoded(&header);
            prop_assert_eq!(Header::decode(&bytes), Ok(Some((header, bytes.len()))));
            for cut in 0..bytes.len() {
                prop_assert_eq!(Header::decode(&bytes[..cut]), Ok(None));
            }
        }

        #[test]
        fn masking_is_bytewise_and_its_own_inverse(payload: Vec<u8>, key: [u8; 4]) {
            let mut masked = payload.clone();
            apply_mask(&mut masked, key);
            let by_byte: Vec<u8> = payload.iter().enumerate().map(|(i, byte)| byte ^ key[i % 4]).collect();
            prop_assert_eq!(&masked, &by_byte);
            apply_mask(&mut masked, key);
            prop_assert_eq!(masked, payload);
        }
    }
}
