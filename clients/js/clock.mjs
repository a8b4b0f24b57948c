// The monotonic clock of each runtime, as a number of nanoseconds.
import process from "node:process";
import { performance } from "node:perf_hooks";

const bun = globalThis.Bun;

/** Where the time comes from. */
export const source = bun ? "Bun.nanoseconds" : "performance.now";

/** Nanoseconds since some moment. */
export const now = bun ? bun.nanoseconds : () => performance.now() * 1e6;

/** Cost and resolution of the clock, in nanoseconds, measured here and now. */
export function facts() {
  const costs = [];
  for (let sample = 0; sample < 21; sample++) {
    const begun = now();
    for (let i = 0; i < 2000; i++) now();
    costs.push((now() - begun) / 2001);
  }
  costs.sort((a, b) => a - b);
  let resolution = Infinity;
  for (let i = 0, last = now(); i < 20000; i++) {
    const next = now();
    if (next > last) resolution = Math.min(resolution, next - last);
    last = next;
  }
  return { source, cost_ns: costs[10], resolution_ns: Math.max(1, Math.round(Number.isFinite(resolution) ? resolution : 1e6)) };
}

/** Name and version of the runtime. */
export function runtime() {
  if (bun) return { bun: bun.version };
  if (globalThis.Deno) return { deno: globalThis.Deno.version.deno };
  return { node: process.versions.node };
}
