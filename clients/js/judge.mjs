// Says what was wrong with a message that was not the expected one. The words are those of docs/RECORD.md; the rules are those
// of the native client, so that a fault has one name whoever meets it.
import { identify } from "./payload.mjs";

/** How long a doubtful case waits for more evidence, in milliseconds. */
const SECOND_LOOK_MS = 100;

const NAMES = ["A", "B"];

/** A reason to give up. Without a `reason` a side failed and no message is to blame. */
export class Fault extends Error {
  constructor(reason, detail, found = {}) {
    super(detail);
    this.reason = reason;
    this.found = found;
  }
}

export function lost(missing, whose, stallMs) {
  const messages = missing === 1 ? "message" : "messages";
  return new Fault("lost-messages", `${missing} ${messages} ${whose} did not arrive within ${stallMs} ms`, { missing });
}

/**
 * `arrived` is `{ pair, end, bytes, isText }`; `collect(ms, enough)` gathers what arrives from now on, anywhere, until
 * `enough` says so or the time is over, and resolves to the list.
 */
export async function judge(engine, arrived, collect) {
  const { pair, end, bytes, isText } = arrived;
  const at = `end ${NAMES[end]} of pair ${pair.number}`;
  const expected = pair.received[end];
  const outstanding = pair.outstanding(end);
  const length = engine.params.payload;
  const isExpected = (other) => {
    const who = identify(other.bytes);
    return other.pair === pair && other.end === end && who?.pair === pair.number && who.sequence === expected;
  };
  const comesLater = async () => (await collect(SECOND_LOOK_MS, isExpected)).some(isExpected);

  const altered = () => {
    const detail =
      bytes.length !== length
        ? `${at} received ${bytes.length} bytes where ${length} were sent`
        : `${at} received other bytes than were sent`;
    return new Fault("altered", detail, { altered: 1 });
  };
  const alteredOrUnasked = async () =>
    outstanding > 0 && !(await comesLater())
      ? altered()
      : new Fault("unasked-message", `${at} received ${bytes.length} bytes that nobody had sent`);

  const who = identify(bytes);
  if (!who || bytes.length !== length || who.pair >= engine.params.pairs) return alteredOrUnasked();
  if (who.pair !== pair.number) {
    // A message of another pair, or one of this pair with another number on it: then one is missing here, and none there.
    const mayBeOurs = who.end !== end && outstanding > 0;
    if (mayBeOurs && !(await comesLater()) && !engine.misses(who)) return altered();
    return mixedUp(at, who);
  }
  if (who.end === end) {
    const detail = `${at} received its own message ${who.sequence} back: the server echoes instead of relaying to the partner`;
    return new Fault("echoed", detail, { echoed: 1 });
  }
  if (isText !== engine.isText) {
    const name = (text) => (text ? "text" : "binary");
    const detail = `${at} received message ${who.sequence} as ${name(isText)}, but it was sent as ${name(engine.isText)}`;
    return new Fault("altered", detail, { opcode_changed: 1 });
  }
  // Before or after the expected one, by the shorter way around.
  const ahead = (who.sequence - expected) >>> 0;
  if (ahead > 0x7fffffff) {
    if (outstanding > 0 && !(await comesLater())) return altered();
    return new Fault("unasked-message", `${at} received message ${who.sequence} a second time`, { doubled: 1 });
  }
  if (ahead >= outstanding) return alteredOrUnasked();
  const gap = new Set(Array.from({ length: ahead }, (_, i) => (expected + i) >>> 0));
  const fills = (other) => {
    if (other.pair !== pair || other.end !== end) return false;
    gap.delete(identify(other.bytes)?.sequence);
    return gap.size === 0;
  };
  const evidence = await collect(engine.stallMs, fills);
  const overtaken = ahead - gap.size;
  if (overtaken > 0) {
    const detail = `${at} received message ${who.sequence} before message ${expected}: ${overtaken} of ${ahead} earlier ones came later`;
    return new Fault("order-broken", detail, { reordered: 1, missing: gap.size });
  }
  return (
    foundElsewhere(evidence, pair) ??
    lost(ahead, `from number ${expected} on, of those to ${at} (number ${who.sequence} came instead),`, engine.stallMs)
  );
}

/** A message of a pair that reached another one. */
export function foundElsewhere(evidence, pair) {
  for (const other of evidence) {
    const who = identify(other.bytes);
    if (who && other.pair !== pair && who.pair === pair.number) {
      return mixedUp(`end ${NAMES[other.end]} of pair ${other.pair.number}`, who);
    }
  }
  return null;
}

function mixedUp(at, who) {
  const detail = `${at} received message ${who.sequence} of end ${NAMES[who.end]} of pair ${who.pair}`;
  return new Fault("partner-mixed-up", detail);
}
