// Latencies in an HdrHistogram with the bounds of the native client.
import { Buffer } from "node:buffer";
import { createRequire } from "node:module";
import { inflateSync } from "node:zlib";

const hdr = createRequire(import.meta.url)("hdr-histogram-js");

const LONGEST_NS = 60_000_000_000;
/** Places in the V2 encoding. */
const NORMALIZING_OFFSET = 8;
const CONVERSION_RATIO = 32;

export class Latency {
  /** Nothing shorter than the clock's resolution can be told from nothing, so nothing shorter is claimed. */
  constructor(resolutionNs) {
    this.resolutionNs = resolutionNs;
    this.histogram = hdr.build({
      bitBucketSize: 64,
      lowestDiscernibleValue: 1,
      highestTrackableValue: LONGEST_NS,
      numberOfSignificantValueDigits: 3,
      autoResize: false,
    });
  }

  record(ns) {
    const whole = Math.round(ns);
    this.histogram.recordValue(whole < this.resolutionNs ? this.resolutionNs : whole > LONGEST_NS ? LONGEST_NS : whole);
  }

  reset() {
    this.histogram.reset();
  }

  /** In HdrHistogram's V2 encoding, in base64. */
  encode() {
    // Only the compressed form can be had: four bytes of cookie, four of length, then the V2 encoding.
    const compressed = Buffer.from(hdr.encodeIntoCompressedBase64(this.histogram), "base64");
    const encoded = inflateSync(compressed.subarray(8));
    // The library says that its values are shifted by a bucket, which they are not, and writes a factor of one as a whole
    // number where a floating one belongs; other implementations refuse both.
    encoded.writeInt32BE(0, NORMALIZING_OFFSET);
    encoded.writeDoubleBE(1, CONVERSION_RATIO);
    return encoded.toString("base64");
  }
}

/** Version of the library. */
export const version = createRequire(import.meta.url)("hdr-histogram-js/package.json").version;
