use super::payload::{self, End, HEAD, Tag};
use crate::wire::{Header, MAX_HEADER, Opcode};

/// The frame of one direction, as a client sends it and as a server does.
pub struct Template {
    /// The client's frame: its header ends at [`MAX_HEADER`], where the payload begins.
    frame: Vec<u8>,
    /// Where the header begins.
    start: usize,
    /// The server's header.
    header: [u8; MAX_HEADER],
    header_len: usize,
}

impl Template {
    /// One for messages of `end` with payloads of `len` bytes.
    pub fn new(end: End, opcode: Opcode, len: usize) -> Self {
        let mut header = [0; MAX_HEADER];
        let plain = Header { fin: true, opcode, mask: None, len: len as u64 };
        let masked_len = Header { mask: Some([0; 4]), ..plain }.encode(&mut header);
        let start = MAX_HEADER - masked_len;
        let mut frame = vec![0; MAX_HEADER];
        frame[start..].copy_from_slice(&header[..masked_len]);
        frame.extend(payload::blank(end, len));
        let header_len = plain.encode(&mut header);
        Template { frame, start, header, header_len }
    }

    /// Makes it the frame of this message, in place.
    #[inline]
    pub fn stamp(&mut self, tag: Tag, sequence: u32) {
        let head: &mut [u8; HEAD] =
            self.frame[MAX_HEADER..].first_chunk_mut().expect("a payload is never shorter than its head");
        payload::stamp(head, tag, sequence);
    }

    /// The payload, as it was last stamped.
    pub fn payload(&self) -> &[u8] {
        &self.frame[MAX_HEADER..]
    }

    /// Length of the server's frame.
    #[inline]
    pub fn arriving_len(&self) -> usize {
        self.header_len + self.frame.len() - MAX_HEADER
    }

    /// Whether `bytes` are the whole of the server's frame.
    #[inline]
    pub fn is_whole(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.arriving_len()
            && bytes[..self.header_len] == self.header[..self.header_len]
            && bytes[self.header_len..] == self.frame[MAX_HEADER..]
    }

    /// Whether `bytes` are what the server's frame holds from `offset` on.
    pub fn goes_on(&self, offset: usize, bytes: &[u8]) -> bool {
        let in_header = bytes.len().min(self.header_len.saturating_sub(offset));
        let in_payload = (offset + in_header).saturating_sub(self.header_len);
        bytes[..in_header] == self.header[offset.min(self.header_len)..][..in_header]
            && bytes[in_header..] == self.payload()[in_payload..][..bytes.len() - in_header]
    }

    /// The client's frame, with a masking key of zeros.
    #[inline]
    pub fn outgoing(&self) -> &[u8] {
        &self.frame[self.start..]
    }

    /// Length of the client's header; its last four bytes are the key.
    pub fn outgoing_header_len(&self) -> usize {
        MAX_HEADER - self.start
    }

    /// A copy of the server's frame.
    pub fn arriving(&self) -> Vec<u8> {
        [&self.header[..self.header_len], self.payload()].concat()
    }
}
