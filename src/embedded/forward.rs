//! Frames on their way through the relay: the part of it that runs for each message.

use super::connection::{Connection, Phase, Slot};
use super::frame::{
    CLOSE, CONTINUATION, FIN, Header, PING, PONG, Parsed, parse, push_frame, unmask, unmasked_header_len,
    write_header,
};
use super::hook::{Frame, Hook};
use super::relay::{NORMAL, Next, Relay};

/// Largest message that is relayed, in bytes.
pub(super) const MAX_MESSAGE: u64 = 16 * 1024 * 1024;

/// Status code for what no client may send (RFC 6455, section 7.4.1).
const PROTOCOL_ERROR: u16 = 1002;
/// Status code for a message beyond the limit.
const TOO_BIG: u16 = 1009;

impl<H: Hook> Relay<H> {
    /// Forwards what lies in `bytes`. `run` is the stretch that is ready to be sent to the partner.
    pub(super) fn frames(&mut self, slot: Slot, bytes: &mut [u8]) {
        let mut at = 0;
        let mut run = 0..0;
        loop {
            let Some(connection) = self.table[slot].as_mut() else { return };
            let partner = connection.partner;
            if connection.left > 0 {
                let take = (bytes.len() - at).min(usize::try_from(connection.left).unwrap_or(usize::MAX));
                connection.left -= take as u64;
                if !connection.to_nobody {
                    connection.key = unmask(&mut bytes[at..at + take], connection.key);
                    if run.is_empty() {
                        run = at..at;
                    }
                    if run.end != at {
                        bytes.copy_within(at..at + take, run.end);
                    }
                    run.end += take;
                }
                at += take;
                if connection.left > 0 {
                    break;
                }
                if let Some(partner) = partner
                    && self.table[partner].as_ref().is_some_and(|partner| partner.pong.is_some())
                {
                    if self.forward(slot, &bytes[run.clone()]) == Next::Stop {
                        return;
                    }
                    run = at..at;
                    self.late_pong(partner);
                }
                continue;
            }
            let header = match parse(&bytes[at..]) {
                Parsed::Whole(header) => header,
                Parsed::Incomplete => {
                    connection.spill.extend_from_slice(&bytes[at..]);
                    break;
                }
                Parsed::Bad => {
                    self.forward_then_fail(slot, &bytes[run], PROTOCOL_ERROR);
                    return;
                }
            };
            let payload_at = at + header.len;
            if header.is_control() {
                let end = payload_at + header.payload as usize;
                if end > bytes.len() {
                    connection.spill.extend_from_slice(&bytes[at..]);
                    break;
                }
                if self.forward(slot, &bytes[run.clone()]) == Next::Stop {
                    return;
                }
                run = end..end;
                unmask(&mut bytes[payload_at..end], header.key);
                if self.control(slot, header, &bytes[payload_at..end]) == Next::Stop {
                    return;
                }
                at = end;
                continue;
            }
            if let Err(code) = connection.begin(header) {
                self.forward_then_fail(slot, &bytes[run], code);
                return;
            }
            if H::ACTIVE
                && let Some(partner) = partner
                && let Some(end) = payload_at.checked_add(header.payload as usize)
                && end <= bytes.len()
            {
                connection.left = 0;
                if self.forward(slot, &bytes[run.clone()]) == Next::Stop {
                    return;
                }
                run = end..end;
                unmask(&mut bytes[payload_at..end], header.key);
                let frame =
                    Frame { from: slot, partner, first: header.first, payload: &bytes[payload_at..end] };
                self.hook.frame(frame, &mut self.outbox);
                self.deliver();
                at = end;
                continue;
            }
            if !connection.to_nobody {
                if run.is_empty() {
                    let start = payload_at - unmasked_header_len(header.payload);
                    run = start..start;
                }
                run.end += write_header(&mut bytes[run.end..], header.first, header.payload);
            }
            at = payload_at;
        }
        self.forward(slot, &bytes[run]);
    }

    /// Sends to the partner, if there is one. [`Next::Stop`] when the sender is gone too after that.
    #[inline]
    fn forward(&mut self, slot: Slot, bytes: &[u8]) -> Next {
        if bytes.is_empty() {
            return Next::Continue;
        }
        let Some(partner) = self.table[slot].as_ref().and_then(|connection| connection.partner) else {
            return Next::Continue;
        };
        self.send(partner, bytes);
        if self.table[slot].as_ref().is_some_and(|connection| connection.phase == Phase::Open) {
            Next::Continue
        } else {
            Next::Stop
        }
    }

    fn forward_then_fail(&mut self, slot: Slot, bytes: &[u8], code: u16) {
        if self.forward(slot, bytes) == Next::Continue {
            self.close(slot, code);
        }
    }

    fn control(&mut self, slot: Slot, header: Header, payload: &[u8]) -> Next {
        match header.opcode() {
            PING => {
                let mut pong = Vec::with_capacity(payload.len() + 2);
                push_frame(&mut pong, FIN | PONG, payload);
                let connection = self.table[slot].as_mut().expect("the caller has looked");
                let partner = connection.partner;
                let inside_a_frame = partner
                    .and_then(|partner| self.table[partner].as_ref())
                    .is_some_and(Connection::is_mid_frame);
                if inside_a_frame {
                    // Only the last ping needs an answer (RFC 6455, section 5.5.3).
                    let connection = self.table[slot].as_mut().expect("the caller has looked");
                    connection.pong = Some(pong.into_boxed_slice());
                    return Next::Continue;
                }
                self.send(slot, &pong)
            }
            CLOSE => {
                let code = match payload {
                    [] => Some(NORMAL),
                    [high, low, ..] => Some(u16::from_be_bytes([*high, *low])).filter(|code| is_valid(*code)),
                    [_] => None,
                };
                self.close(slot, code.unwrap_or(PROTOCOL_ERROR));
                // Both sides have said goodbye: nothing more can come.
                if self.table[slot].as_ref().is_some_and(|connection| connection.backlog() == 0) {
                    self.forget(slot);
                }
                Next::Stop
            }
            _ => Next::Continue,
        }
    }

    fn late_pong(&mut self, slot: Slot) {
        if let Some(pong) = self.table[slot].as_mut().and_then(|connection| connection.pong.take()) {
            self.send(slot, &pong);
        }
    }
}

impl Connection {
    /// Takes note of the header of a data frame; the error is a status code.
    #[inline]
    fn begin(&mut self, header: Header) -> Result<(), u16> {
        if (header.opcode() == CONTINUATION) != self.fragmented {
            return Err(PROTOCOL_ERROR);
        }
        self.message = if self.fragmented { self.message } else { 0 }.saturating_add(header.payload);
        if self.message > MAX_MESSAGE {
            return Err(TOO_BIG);
        }
        self.fragmented = !header.is_final();
        self.left = header.payload;
        self.key = header.key;
        if header.opcode() != CONTINUATION {
            self.to_nobody = self.partner.is_none();
        }
        Ok(())
    }
}

/// Whether an endpoint may send a status code (RFC 6455, section 7.4).
fn is_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
