// Pairs of connections and what is exchanged on them. Everything happens in message handlers: what reaches end B is answered,
// what comes back to end A ends a round trip and begins the next.
import { Buffer } from "node:buffer";
import { now } from "./clock.mjs";
import { Fault, judge, lost } from "./judge.mjs";
import { blank, stamp } from "./payload.mjs";
import { open } from "./sockets.mjs";

const A = 0;
const B = 1;
const NAMES = ["A", "B"];

/** After all probes have arrived nobody may receive anything for this long, and again after the last trial. */
const QUIET_MS = 20;
const LAST_QUIET_MS = 5;
/** How often messages that do not come are looked for. */
const WATCH_MS = 50;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Pair {
  constructor(number, params) {
    this.number = number;
    this.sockets = [null, null];
    /** Messages that each end has sent and received. */
    this.sent = [0, 0];
    this.received = [0, 0];
    /** A buffer for each message that may be on its way: a library may keep it until it is written. */
    this.buffers = [A, B].map((end) => Array.from({ length: params.in_flight }, () => blank(end, number, params.payload)));
    /** What each end receives, with the number that is expected. */
    this.expected = [blank(B, number, params.payload), blank(A, number, params.payload)];
    /** When each round trip in flight began, used in turn. */
    this.begun = new Float64Array(params.in_flight);
    this.progressAt = 0;
    this.progressSeen = -1;
  }

  /** Messages on their way to an end. */
  outstanding(end) {
    return (this.sent[1 - end] - this.received[end]) >>> 0;
  }
}

export class Engine {
  constructor(job, histogram) {
    this.params = job.params;
    this.url = `ws://${job.host}:${job.port}`;
    this.kind = job.client;
    this.isText = job.params.opcode === "text";
    this.stallMs = job.stall_ns / 1e6;
    this.histogram = histogram;
    this.pairs = [];
    this.counters = { sent: 0, received: 0, echoed: 0, altered: 0, reordered: 0, missing: 0, doubled: 0, opcode_changed: 0 };
    /** What a message that was expected leads to; none when nothing may arrive. */
    this.arrived = null;
    /** Ends the phase that is going on with a fault. */
    this.fail = null;
    /** Where everything goes while a fault is judged. */
    this.evidence = null;
    this.closing = false;
  }

  /** Opens all connections, the two ends of a pair back to back, so that arrival order pairs them. */
  async connect() {
    const begun = now();
    const extensions = new Set();
    for (let number = 0; number < this.params.pairs; number++) {
      const pair = new Pair(number, this.params);
      this.pairs.push(pair);
      for (const end of [A, B]) {
        const heard = {
          message: (data, isText) => this.hear(pair, end, data, isText),
          closed: (how) => this.closed(pair, end, how),
        };
        const timeout = sleep(this.stallMs).then(() => Promise.reject(new Error(`no answer within ${this.stallMs} ms`)));
        timeout.catch(() => {});
        try {
          pair.sockets[end] = await Promise.race([open(this.kind, this.url, heard), timeout]);
        } catch (error) {
          throw new Fault(null, `connection ${number * 2 + end + 1} to ${this.url} failed: ${error.message}`);
        }
        pair.sockets[end].extensions.forEach((extension) => extensions.add(extension));
      }
    }
    return { connections: 2 * this.pairs.length, connect_ns: Math.round(now() - begun), extensions: [...extensions] };
  }

  hear(pair, end, data, isText) {
    if (this.evidence) {
      this.evidence({ pair, end, bytes: Buffer.from(data), isText });
      return;
    }
    const expected = pair.expected[end];
    if (this.arrived !== null && isText === this.isText && pair.sent[1 - end] !== pair.received[end]) {
      stamp(expected, pair.received[end]);
      if (typeof data === "string" ? data === expected.latin1Slice() : expected.equals(data)) {
        pair.received[end] = (pair.received[end] + 1) >>> 0;
        this.counters.received++;
        this.arrived(pair, end);
        return;
      }
    }
    this.surprised({ pair, end, bytes: Buffer.from(data), isText });
  }

  /** Judges what was not expected; ends the phase. */
  surprised(arrived) {
    const fail = this.fail;
    const collect = (ms, enough) =>
      new Promise((resolve) => {
        const seen = [];
        const timer = setTimeout(() => resolve(seen), ms);
        this.evidence = (other) => {
          seen.push(other);
          if (enough(other)) {
            clearTimeout(timer);
            resolve(seen);
          }
        };
      });
    this.evidence = () => {};
    judge(this, arrived, collect).then((fault) => (fail ?? ((late) => (this.late = late)))(fault));
  }

  closed(pair, end, how) {
    if (this.closing) return;
    const fault = new Fault(null, `the server ${how}, seen at end ${NAMES[end]} of pair ${pair.number}`);
    if (this.fail) this.fail(fault);
    else this.late = fault;
  }

  send(pair, end) {
    const ring = pair.buffers[end];
    const sequence = pair.sent[end];
    const bytes = ring[sequence % ring.length];
    stamp(bytes, sequence);
    pair.sent[end] = (sequence + 1) >>> 0;
    this.counters.sent++;
    pair.sockets[end].send(this.isText ? bytes.latin1Slice() : bytes, this.isText);
  }

  /** Whether a message was sent and has not reached the end that it was meant for. */
  misses({ pair: number, end, sequence }) {
    const pair = this.pairs[number];
    return ((sequence - pair.received[1 - end]) >>> 0) < pair.outstanding(1 - end);
  }

  /** Runs a phase: `begin` sends, `arrived` is told of every expected message and says when it is over. */
  phase(begin, arrived) {
    return new Promise((resolve, reject) => {
      const watch = setInterval(() => this.lookForTheLost(), WATCH_MS);
      const over = () => {
        clearInterval(watch);
        this.arrived = null;
        this.fail = null;
      };
      this.fail = (fault) => {
        over();
        reject(fault);
      };
      if (this.late) {
        this.fail(this.late);
        return;
      }
      const started = now();
      for (const pair of this.pairs) {
        pair.progressAt = started;
        pair.progressSeen = -1;
      }
      this.arrived = (pair, end) => {
        if (arrived(pair, end)) {
          over();
          resolve();
        }
      };
      begin(started);
    });
  }

  lookForTheLost() {
    if (this.evidence) return;
    const time = now();
    let missing = 0;
    const stuck = [];
    for (const pair of this.pairs) {
      const progress = pair.received[A] + pair.received[B];
      const waits = pair.outstanding(A) + pair.outstanding(B);
      if (progress !== pair.progressSeen || waits === 0) {
        pair.progressSeen = progress;
        pair.progressAt = time;
      } else if (time - pair.progressAt > this.stallMs * 1e6) {
        missing += waits;
        stuck.push(pair.number);
      }
    }
    if (stuck.length > 0) {
      const whose = stuck.length === 1 ? `of pair ${stuck[0]}` : `of ${stuck.length} pairs (the first is pair ${stuck[0]})`;
      this.fail?.(lost(missing, whose, this.stallMs));
    }
  }

  /** Checks, in both directions, that a message reaches the partner and nobody else. The probes are not counted. */
  async verify() {
    const begun = now();
    for (const from of [A, B]) {
      let waiting = this.pairs.length;
      await this.phase(
        () => this.pairs.forEach((pair) => this.send(pair, from)),
        () => --waiting === 0,
      );
    }
    await this.silence(QUIET_MS);
    this.counters.sent = 0;
    this.counters.received = 0;
    return Math.round(now() - begun);
  }

  /** Fails if anything arrives within some time in which nobody sends. */
  async silence(ms) {
    await sleep(ms);
    if (this.evidence && !this.late) await sleep(Math.max(200, this.stallMs));
    if (this.late) throw this.late;
  }

  /** One warm-up or trial. Slices follow one another without a pause. */
  async batch(extent, slices) {
    const { in_flight } = this.params;
    const target = extent.rounds ?? Infinity;
    const marks = [];
    let [begun, done, last, end, started] = [0, 0, 0, Infinity, 0];
    let boundary = Infinity;
    const nextBoundary = () => {
      const part = (marks.length + 1) / slices;
      boundary = marks.length + 1 < slices ? (extent.rounds ? part * target : started + part * extent.duration_ns) : Infinity;
    };
    if (target === 0 || extent.duration_ns === 0) return [];
    this.histogram.reset();
    const begin = (pair, time) => {
      begun++;
      pair.begun[pair.sent[A] % in_flight] = time;
      this.send(pair, A);
    };
    await this.phase(
      (time) => {
        started = time;
        last = time;
        if (extent.duration_ns) end = started + extent.duration_ns;
        nextBoundary();
        for (let place = 0; place < in_flight; place++) {
          for (const pair of this.pairs) if (begun < target) begin(pair, now());
        }
      },
      (pair, at) => {
        if (at === B) {
          this.send(pair, B);
          return false;
        }
        const time = now();
        last = time;
        this.histogram.record(time - pair.begun[((pair.received[A] - 1) >>> 0) % in_flight]);
        done++;
        if (begun < target && time < end) begin(pair, time);
        while ((extent.rounds ? done : time) >= boundary) {
          marks.push({ rounds: done, at: time });
          nextBoundary();
        }
        return done === begun;
      },
    );
    marks.push({ rounds: done, at: last });
    let before = { rounds: 0, at: started };
    const batches = [];
    for (const mark of marks) {
      const batch = { rounds: mark.rounds - before.rounds, elapsed_ns: Math.max(1, Math.round(mark.at - before.at)) };
      if (batch.rounds > 0) batches.push(batch);
      before = mark;
    }
    if (slices === 1) batches[0].latency = this.histogram.encode();
    return batches;
  }

  /** The last check, then goodbye on every connection. */
  async finish() {
    await this.silence(LAST_QUIET_MS);
    this.closing = true;
    for (const pair of this.pairs) for (const socket of pair.sockets) socket.close();
  }
}
