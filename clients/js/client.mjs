// A load generator for WebSocket relays, on Node.js, Bun and Deno. Speaks the protocol of `runner`'s clients: the first line of stdin
// is the job, each further line lets it go on with its next phase, and each phase ends with a line of JSON on stdout.
import process from "node:process";
import { facts, runtime } from "./clock.mjs";
import { Engine } from "./engine.mjs";
import { Fault } from "./judge.mjs";
import { Latency, version } from "./latency.mjs";
import { HEAD, MAX_PAIRS } from "./payload.mjs";
import { versions } from "./sockets.mjs";

const WARM_UP_SLICES = 10;

/** Lines of stdin, one at a time; null when there are no more. */
const nextLine = (() => {
  const lines = [];
  const waiting = [];
  let rest = "";
  let ended = false;
  process.stdin.setEncoding("utf8");
  process.stdin.on("data", (text) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    for (const line of parts) waiting.length > 0 ? waiting.shift()(line) : lines.push(line);
  });
  process.stdin.on("end", () => {
    ended = true;
    waiting.forEach((resolve) => resolve(null));
  });
  return () => (lines.length > 0 ? Promise.resolve(lines.shift()) : ended ? Promise.resolve(null) : new Promise((resolve) => waiting.push(resolve)));
})();

/** Writes an event; resolves once the other side has it. */
const say = (event) => new Promise((resolve) => process.stdout.write(`${JSON.stringify(event)}\n`, resolve));

/** Writes an event and waits for the word to go on. */
async function endPhase(event) {
  await say(event);
  if ((await nextLine()) === null) process.exit(0);
}

/** Refuses what cannot be done. */
function check({ client, host, params }) {
  const refuse = (detail) => {
    throw new Fault(null, detail);
  };
  if (client !== "ws" && client !== "builtin") refuse(`\`${client}\` is not a client of this program; \`ws\` and \`builtin\` are`);
  if (!/^127\.\d+\.\d+\.\d+$/.test(host)) refuse(`the host \`${host}\` is not an address of 127.0.0.0/8`);
  if (params.threads !== 1) refuse(`a JavaScript client has one thread, not ${params.threads}; leave \`threads\` out`);
  if (params.rate_per_s) refuse("a JavaScript client has no open loop; leave `rate` out, or use the native client");
  if (params.payload < HEAD) refuse(`a payload of ${params.payload} bytes is less than ${HEAD}`);
  if (params.pairs < 1 || params.pairs > MAX_PAIRS) refuse(`${params.pairs} pairs are not within 1 to ${MAX_PAIRS}`);
  if (params.in_flight < 1) refuse("there must be at least one message in flight");
}

async function work(job) {
  check(job);
  const clock = facts();
  const engine = new Engine(job, new Latency(clock.resolution_ns));
  counters = engine.counters;
  const connected = await engine.connect();
  await endPhase({
    event: "ready",
    versions: { ...runtime(), ...versions(job.client), "hdr-histogram-js": version },
    ...connected,
    clock,
  });
  await endPhase({ event: "verified", elapsed_ns: await engine.verify() });
  await endPhase({ event: "warm", slices: await engine.batch(job.params.warmup, WARM_UP_SLICES) });
  for (let index = 0; index < job.params.trials; index++) {
    const [batch] = await engine.batch(job.params.trial, 1);
    await endPhase({ event: "trial", index, ...batch });
  }
  await engine.finish();
  await say({ event: "done", counters: engine.counters });
}

let counters = { sent: 0, received: 0, echoed: 0, altered: 0, reordered: 0, missing: 0, doubled: 0, opcode_changed: 0 };
const line = await nextLine();
if (line !== null) {
  try {
    await work(JSON.parse(line));
  } catch (error) {
    if (!(error instanceof Fault)) console.error(error);
    const { reason = null, found = {} } = error;
    for (const [name, count] of Object.entries(found)) counters[name] += count;
    await say({ event: "fault", reason, detail: error.message, counters });
  }
}
process.exit(0);
