use super::MIN_PAYLOAD;

/// Length of what tells a message from every other one: direction, pair and sequence number.
pub const HEAD: usize = MIN_PAYLOAD as usize;

/// The most pairs whose numbers fit into three characters.
pub const MAX_PAIRS: u32 = 1 << 18;

/// One end of a pair; also the direction of what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that connected first and begins each round trip.
    A,
    /// The end that answers.
    B,
}

impl End {
    /// Both.
    pub const BOTH: [End; 2] = [End::A, End::B];

    /// The other end of the pair.
    pub fn partner(self) -> End {
        match self {
            End::A => End::B,
            End::B => End::A,
        }
    }

    /// 0 or 1.
    pub fn index(self) -> usize {
        match self {
            End::A => 0,
            End::B => 1,
        }
    }

    /// The name that a person sees.
    pub fn name(self) -> &'static str {
        match self {
            End::A => "A",
            End::B => "B",
        }
    }

    fn letter(self) -> u8 {
        match self {
            End::A => b'A',
            End::B => b'B',
        }
    }
}

/// Direction and pair, the first four bytes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag([u8; 4]);

impl Tag {
    /// The tag of what `end` of a pair sends.
    pub fn new(end: End, pair: u32) -> Self {
        let digit = |shift: u32| b'0' + (pair >> shift & 0x3F) as u8;
        Tag([end.letter(), digit(12), digit(6), digit(0)])
    }
}

/// What a payload says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who sent it.
    pub end: End,
    /// Of which pair.
    pub pair: u32,
    /// Which of its messages, from 0.
    pub sequence: u32,
}

/// The eight characters of a sequence number: each of its half bytes in a byte of its own, most significant first,
/// as `0` to `?`.
#[inline]
fn digits(sequence: u32) -> [u8; 8] {
    let mut spread = u64::from(sequence);
    spread = (spread | spread << 16) & 0x0000_FFFF_0000_FFFF;
    spread = (spread | spread << 8) & 0x00FF_00FF_00FF_00FF;
    spread = (spread | spread << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    (spread | 0x3030_3030_3030_3030).to_be_bytes()
}

/// Writes tag and sequence number over the head of a payload.
#[inline]
pub fn stamp(head: &mut [u8; HEAD], tag: Tag, sequence: u32) {
    let (first, rest) = head.split_at_mut(4);
    first.copy_from_slice(&tag.0);
    rest.copy_from_slice(&digits(sequence));
}

/// A payload of `len` bytes in which only the head is still to be stamped. All ASCII, so that text and binary
/// messages are the same bytes; no byte is the same in both directions; no repetition at any power of two.
///
/// # Panics
/// When `len` is less than [`HEAD`].
pub fn blank(end: End, len: usize) -> Vec<u8> {
    assert!(len >= HEAD, "the plan allows no payload shorter than its head");
    let first = match end {
        End::A => b'a',
        End::B => b'A',
    };
    (0..len).map(|i| first + ((i * 7 + i / 26 * 3) % 26) as u8).collect()
}

/// What a payload says of itself; none when any of its bytes is not as a sender would have made it.
pub fn identify(payload: &[u8]) -> Option<Identity> {
    let (head, rest) = payload.split_first_chunk::<HEAD>()?;
    let end = End::BOTH.into_iter().find(|end| end.letter() == head[0])?;
    let number = |bytes: &[u8], bits: u32| {
        bytes.iter().try_fold(0u32, |number, byte| {
            let digit = byte.checked_sub(b'0').filter(|digit| u32::from(*digit) < 1 << bits)?;
            Some(number << bits | u32::from(digit))
        })
    };
    let pair = number(&head[1..4], 6)?;
    let sequence = number(&head[4..], 4)?;
    (rest == &blank(end, payload.len())[HEAD..]).then_some(Identity { end, pair, sequence })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn payload(end: End, pair: u32, sequence: u32, len: usize) -> Vec<u8> {
        let mut payload = blank(end, len);
        stamp(payload.first_chunk_mut().unwrap(), Tag::new(end, pair), sequence);
        payload
    }

    #[test]
    fn a_payload_reads_as_designed() {
        assert_eq!(payload(End::A, 1, 0x2A, 12), b"A0010000002:");
        assert_eq!(&payload(End::B, MAX_PAIRS - 1, u32::MAX, 14)[..12], b"Booo????????");
    }

    #[test]
    fn the_directions_share_no_byte_of_the_fill() {
        let (a, b) = (blank(End::A, 5000), blank(End::B, 5000));
        assert!(a.iter().zip(&b).all(|(a, b)| a != b && a.is_ascii() && b.is_ascii()));
    }

    proptest! {
        #[test]
        fn a_payload_says_who_it_is(first: bool, pair in 0..MAX_PAIRS, sequence: u32, len in HEAD..600) {
            let end = if first { End::A } else { End::B };
            let payload = payload(end, pair, sequence, len);
            prop_assert!(payload.is_ascii());
            prop_assert_eq!(identify(&payload), Some(Identity { end, pair, sequence }));
        }

        #[test]
        fn a_changed_byte_never_goes_unseen(
            pair in 0..MAX_PAIRS, sequence: u32, len in HEAD..100, at: prop::sample::Index, flip in 1..=255u8,
        ) {
            let good = payload(End::A, pair, sequence, len);
            let mut bad = good.clone();
            bad[at.index(len)] ^= flip;
            prop_assert_ne!(identify(&bad), identify(&good));
        }

        #[test]
        fn a_shortened_or_lengthened_payload_is_nobodys(sequence: u32, len in HEAD + 1..100) {
            let mut bytes = payload(End::B, 0, sequence, len);
            bytes.push(b'!');
            prop_assert_eq!(identify(&bytes), None);
            prop_assert_eq!(identify(&bytes[..HEAD - 1]), None);
        }
    }
}
