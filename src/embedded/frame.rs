//! Frames as a server sees them (RFC 6455, section 5.2).

/// Final-fragment bit of a frame's first byte.
pub(super) const FIN: u8 = 0x80;
/// Opcode of a further fragment.
pub(super) const CONTINUATION: u8 = 0x0;
/// Opcode of a text message.
pub(super) const TEXT: u8 = 0x1;
/// Opcode of a binary message.
pub(super) const BINARY: u8 = 0x2;
/// Opcode of a close.
pub(super) const CLOSE: u8 = 0x8;
/// Opcode of a ping.
pub(super) const PING: u8 = 0x9;
/// Opcode of a pong.
pub(super) const PONG: u8 = 0xA;
/// Largest payload of a control frame, in bytes.
pub(super) const MAX_CONTROL: usize = 125;
/// Largest header of a masked frame, in bytes.
pub(super) const MAX_HEADER: usize = 14;

/// The header of a masked frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// FIN bit and opcode, as received.
    pub(super) first: u8,
    /// Payload, in bytes.
    pub(super) payload: u64,
    /// Masking key, in the order of the wire.
    pub(super) key: [u8; 4],
    /// Length of the header, in bytes.
    pub(super) len: usize,
}

impl Header {
    pub(super) fn opcode(self) -> u8 {
        self.first & 0x0F
    }

    pub(super) fn is_final(self) -> bool {
        self.first & FIN != 0
    }

    pub(super) fn is_control(self) -> bool {
        self.first & 0x08 != 0
    }
}

/// What the first bytes of a frame say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// No client may send this.
    Bad,
    /// A header that is well formed.
    Whole(Header),
}

/// Reads a client's frame header from the start of `bytes`.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let [first, second, ..] = *bytes else { return Parsed::Incomplete };
    let opcode = first & 0x0F;
    let reserved_bits = first & 0x70 != 0;
    let reserved_opcode = matches!(opcode, 0x3..=0x7 | 0xB..);
    let unmasked = second & 0x80 == 0;
    let short = second & 0x7F;
    let bad_control = opcode & 0x08 != 0 && (first & FIN == 0 || usize::from(short) > MAX_CONTROL);
    if reserved_bits || reserved_opcode || unmasked || bad_control {
        return Parsed::Bad;
    }
    let len = match short {
        126 => 8,
        127 => 14,
        _ => 6,
    };
    if bytes.len() < len {
        return Parsed::Incomplete;
    }
    let payload = match short {
        126 => u64::from(u16::from_be_bytes([bytes[2], bytes[3]])),
        127 => u64::from_be_bytes(bytes[2..10].try_into().expect("eight bytes")),
        _ => u64::from(short),
    };
    // The shortest form is mandatory, and the highest bit of a length must be 0.
    if (short == 126 && payload < 126) || (short == 127 && (payload <= 0xFFFF || payload >> 63 != 0)) {
        return Parsed::Bad;
    }
    let key = bytes[len - 4..len].try_into().expect("four bytes");
    Parsed::Whole(Header { first, payload, key, len })
}

/// Length of the unmasked header of a payload, in bytes: the masked one less its key.
pub(super) fn unmasked_header_len(payload: u64) -> usize {
    match payload {
        0..126 => 2,
        126..=0xFFFF => 4,
        _ => 10,
    }
}

/// Writes an unmasked header at the start of `out` and returns its length.
#[inline]
pub(super) fn write_header(out: &mut [u8], first: u8, payload: u64) -> usize {
    out[0] = first;
    match payload {
        0..126 => {
            out[1] = payload as u8;
            2
        }
        126..=0xFFFF => {
            out[1] = 126;
            out[2..4].copy_from_slice(&(payload as u16).to_be_bytes());
            4
        }
        _ => {
            out[1] = 127;
            out[2..10].copy_from_slice(&payload.to_be_bytes());
            10
        }
    }
}

/// Appends a whole unmasked frame.
pub(super) fn push_frame(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    let mut header = [0; 10];
    let len = write_header(&mut header, first, payload.len() as u64);
    out.extend_from_slice(&header[..len]);
    out.extend_from_slice(payload);
}

/// Masks or unmasks `bytes` and returns the key turned to where the next byte continues.
///
/// Eight bytes at a time, in a form that the compiler turns into vector instructions.
#[inline]
pub(super) fn unmask(bytes: &mut [u8], key: [u8; 4]) -> [u8; 4] {
    let half = u64::from(u32::from_ne_bytes(key));
    let word = half | half << 32;
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for chunk in words {
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
    let mut turned = key;
    turned.rotate_left(rest.len() % 4);
    turned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_frame(first: u8, payload: &[u8], key: [u8; 4]) -> Vec<u8> {
        let mut frame = Vec::new();
        push_frame(&mut frame, first, payload);
        frame[1] |= 0x80;
        let at = unmasked_header_len(payload.len() as u64);
        frame.splice(at..at, key);
        for (index, byte) in frame[at + 4..].iter_mut().enumerate() {
            *byte ^= key[index % 4];
        }
        frame
    }

    #[test]
    fn headers_of_all_three_lengths_are_read_and_written() {
        for size in [0_usize, 1, 125, 126, 127, 65_535, 65_536, 100_000] {
            let frame = client_frame(FIN | BINARY, &vec![7; size], [1, 2, 3, 4]);
            let Parsed::Whole(header) = parse(&frame) else { panic!("{size} bytes were not read") };
            assert_eq!((header.payload, header.key), (size as u64, [1, 2, 3, 4]));
            assert_eq!(header.len + size, frame.len());
            let mut out = [0; 10];
            assert_eq!(write_header(&mut out, header.first, header.payload), header.len - 4);
        }
    }

    #[test]
    fn a_header_cut_anywhere_is_incomplete() {
        let frame = client_frame(FIN | TEXT, &[7; 70_000], [9; 4]);
        for cut in 0..MAX_HEADER {
            assert_eq!(parse(&frame[..cut]), Parsed::Incomplete, "cut at {cut}");
        }
    }

    #[test]
    fn what_no_client_may_send_is_bad() {
        let bad: [(&str, &[u8]); 8] = [
            ("unmasked", &[0x82, 0x01]),
            ("reserved bit", &[0xC2, 0x81]),
            ("reserved opcode", &[0x83, 0x81]),
            ("reserved control opcode", &[0x8B, 0x81]),
            ("fragmented ping", &[0x09, 0x81]),
            ("oversized ping", &[0x89, 0xFE]),
            ("long form of a short length", &[0x82, 0xFE, 0, 5, 0, 0, 0, 0]),
            ("length with the highest bit", &[0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
        ];
        for (name, bytes) in bad {
            assert_eq!(parse(bytes), Parsed::Bad, "{name}");
        }
    }

    #[test]
    fn unmasking_in_pieces_equals_unmasking_byte_by_byte() {
        let key = [0xA1, 0x5B, 0x3C, 0xF7];
        let clear: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        let masked: Vec<u8> = clear.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        for cut in [0, 1, 2, 3, 4, 7, 8, 9, 13, 500, 999, 1_000] {
            let mut bytes = masked.clone();
            let (head, tail) = bytes.split_at_mut(cut);
            let turned = unmask(head, key);
            unmask(tail, turned);
            assert_eq!(bytes, clear, "cut at {cut}");
        }
    }
}
