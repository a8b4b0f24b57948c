use std::collections::BTreeMap;

use tungstenite::Message;

use super::end::End;

/// Messages that one end sends before it looks at the other.
const IN_FLIGHT: u32 = 100;
/// Rounds of a burst, each of [`IN_FLIGHT`] messages in both directions. Enough for a server that changes its mind
/// after thousands of messages.
const ROUNDS: u32 = 15;
/// Names of the two ends.
const SIDES: [char; 2] = ['a', 'b'];

/// What became of a burst. Each count is of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) sent: u32,
    pub(super) missing: u32,
    pub(super) doubled: u32,
    pub(super) reordered: u32,
    pub(super) altered: u32,
    pub(super) echoed: u32,
    pub(super) unasked: u32,
    pub(super) opcode_changed: u32,
}

/// Sends bursts in both directions at once and counts what is wrong with what arrives.
pub(super) fn burst(one: &mut End, other: &mut End) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let numbers = round * IN_FLIGHT..(round + 1) * IN_FLIGHT;
        one.send_all(numbers.clone().map(|number| message('a', number)))?;
        other.send_all(numbers.clone().map(|number| message('b', number)))?;
        let mut at_other = collect(other, 'a', numbers.len());
        let mut at_one = collect(one, 'b', numbers.len());
        let is_whole = |received: &[Message], from| {
            received.iter().cloned().eq(numbers.clone().map(|number| message(from, number)))
        };
        let is_last = round + 1 == ROUNDS;
        if is_last || !is_whole(&at_other, 'a') || !is_whole(&at_one, 'b') {
            // What should not be there at all comes last.
            at_other.extend(rest(other));
            at_one.extend(rest(one));
        }
        tally.count('a', numbers.clone(), &at_other);
        tally.count('b', numbers, &at_one);
        if !tally.is_clean() {
            // Later rounds would only count what this one left behind.
            break;
        }
    }
    Ok(tally)
}

/// The messages that arrive at an end, until as many are there as were sent, or one is an echo, which keeps the others
/// away.
fn collect(end: &mut End, from: char, count: usize) -> Vec<Message> {
    let mut messages = Vec::with_capacity(count);
    while messages.len() < count {
        let Ok(arrived) = end.receive() else { break };
        let is_echo = parse(&arrived).is_some_and(|(side, _)| side != from && SIDES.contains(&side));
        messages.push(arrived);
        if is_echo {
            break;
        }
    }
    messages
}

/// What else arrives, until nothing does for a while. Bounded: a server that never stops must not hold us here.
fn rest(end: &mut End) -> Vec<Message> {
    (0..2 * IN_FLIGHT).map_while(|_| end.receive_soon().ok()).collect()
}

/// A message that tells its sender and its number. Even numbers are text and odd ones binary.
fn message(side: char, number: u32) -> Message {
    let text = format!("{side} {number:06} {}", "0123456789".repeat(number as usize % 8));
    if number.is_multiple_of(2) { Message::text(text) } else { Message::binary(text.into_bytes()) }
}

fn parse(message: &Message) -> Option<(char, u32)> {
    let text = message.to_text().ok()?;
    let mut words = text.split(' ');
    let side = words.next()?.chars().next()?;
    Some((side, words.next()?.parse().ok()?))
}

impl Tally {
    /// Whether nothing is wrong.
    pub(super) fn is_clean(&self) -> bool {
        Tally { sent: 0, ..*self } == Tally::default()
    }

    fn count(&mut self, side: char, numbers: std::ops::Range<u32>, received: &[Message]) {
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        let mut altered = 0;
        let mut latest = None;
        for arrived in received {
            match parse(arrived) {
                Some((from, number)) if from == side && numbers.contains(&number) => {
                    let sent = message(side, number);
                    if arrived.clone().into_data() != sent.clone().into_data() {
                        altered += 1;
                        continue;
                    }
                    if *arrived != sent {
                        self.opcode_changed += 1;
                    }
                    let times = seen.entry(number).or_default();
                    *times += 1;
                    if *times > 1 {
                        self.doubled += 1;
                    } else if latest.is_some_and(|latest| number < latest) {
                        self.reordered += 1;
                    }
                    latest = latest.max(Some(number));
                }
                Some((from, _)) if from != side && SIDES.contains(&from) => self.echoed += 1,
                // Altered where it tells who sent it; of the length of a message, at least.
                _ if arrived.len() % 10 == 9 => altered += 1,
                _ => self.unasked += 1,
            }
        }
        self.sent += numbers.len() as u32;
        self.altered += altered;
        self.missing += (numbers.len() as u32).saturating_sub(seen.len() as u32 + altered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(change: impl FnOnce(&mut Vec<Message>)) -> Tally {
        let mut messages: Vec<Message> = (0..100).map(|number| message('a', number)).collect();
        change(&mut messages);
        let mut tally = Tally::default();
        tally.count('a', 0..100, &messages);
        tally
    }

    #[test]
    fn each_fault_is_counted_as_what_it_is() {
        let clean = Tally { sent: 100, ..Tally::default() };
        assert_eq!(tally(|_| {}), clean);
        assert_eq!(tally(|all| drop(all.remove(7))), Tally { missing: 1, ..clean });
        assert_eq!(tally(|all| all.swap(3, 4)), Tally { reordered: 1, ..clean });
        assert_eq!(tally(|all| all.insert(9, all[8].clone())), Tally { doubled: 1, ..clean });
        assert_eq!(tally(|all| all[5] = Message::binary(all[5].clone().into_data().to_vec())), clean);
        let opcode = |all: &mut Vec<Message>| all[4] = Message::binary(all[4].clone().into_data());
        assert_eq!(tally(opcode), Tally { opcode_changed: 1, ..clean });
        let last_bit = |all: &mut Vec<Message>| {
            let mut data = all[6].clone().into_data().to_vec();
            *data.last_mut().unwrap() ^= 1;
            all[6] = Message::text(String::from_utf8(data).unwrap());
        };
        assert_eq!(tally(last_bit), Tally { altered: 1, ..clean });
        let first_byte =
            |all: &mut Vec<Message>| all[6] = Message::text("z 000006 012345678901234567890123456789");
        assert_eq!(tally(first_byte).unasked + tally(first_byte).altered, 1);
        let unasked = |all: &mut Vec<Message>| all.insert(50, Message::text("who said this?"));
        assert_eq!(tally(unasked), Tally { unasked: 1, ..clean });
        let echo = |all: &mut Vec<Message>| all[50] = message('b', 50);
        assert_eq!(tally(echo), Tally { echoed: 1, missing: 1, ..clean });
    }
}
