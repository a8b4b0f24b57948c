// Payloads that say who sent them, as docs/RECORD.md describes the checks: direction, pair and sequence number in twelve
// characters, then a fill that differs between the directions. All ASCII, so that text and binary are the same bytes.
import { Buffer } from "node:buffer";

export const HEAD = 12;
export const MAX_PAIRS = 1 << 18;

const LETTERS = [0x41, 0x42]; // A, B
const FIRST = [0x61, 0x41]; // what the fill of each direction begins with

/** The fill of a direction (0 is from end A, 1 from end B), with the head of a pair, still without a number. */
export function blank(end, pair, length) {
  const bytes = Buffer.alloc(length);
  for (let i = 0; i < length; i++) {
    bytes[i] = FIRST[end] + ((i * 7 + Math.floor(i / 26) * 3) % 26);
  }
  bytes[0] = LETTERS[end];
  for (let i = 0; i < 3; i++) bytes[1 + i] = 0x30 + ((pair >>> (12 - 6 * i)) & 0x3f);
  return bytes;
}

/** Writes a sequence number: each half byte in a byte of its own, as `0` to `?`. */
export function stamp(bytes, sequence) {
  bytes[4] = 0x30 | (sequence >>> 28);
  bytes[5] = 0x30 | ((sequence >>> 24) & 15);
  bytes[6] = 0x30 | ((sequence >>> 20) & 15);
  bytes[7] = 0x30 | ((sequence >>> 16) & 15);
  bytes[8] = 0x30 | ((sequence >>> 12) & 15);
  bytes[9] = 0x30 | ((sequence >>> 8) & 15);
  bytes[10] = 0x30 | ((sequence >>> 4) & 15);
  bytes[11] = 0x30 | (sequence & 15);
}

/** What a payload says of itself; null when any of its bytes is not as a sender would have made it. */
export function identify(bytes) {
  if (bytes.length < HEAD) return null;
  const end = LETTERS.indexOf(bytes[0]);
  if (end < 0) return null;
  const number = (from, to, bits) => {
    let value = 0;
    for (let i = from; i < to; i++) {
      const digit = bytes[i] - 0x30;
      if (digit < 0 || digit >= 1 << bits) return -1;
      value = value * (1 << bits) + digit;
    }
    return value;
  };
  const pair = number(1, 4, 6);
  const sequence = number(4, HEAD, 4);
  if (pair < 0 || sequence < 0) return null;
  const expected = blank(end, pair, bytes.length);
  return expected.compare(bytes, HEAD, bytes.length, HEAD) === 0 ? { end, pair, sequence } : null;
}
