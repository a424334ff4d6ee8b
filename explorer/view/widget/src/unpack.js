// The payload as it travels: view/packing.py packs it, in a page as base64. What the first screen needs
// is unpacked at once, the other parts when the browser has nothing else to do, or when one is asked for.

import { gunzipSync, strFromU8 } from "fflate";
import { whenIdle } from "./dom.js";

/** @import { Opening, Payload } from "./wire.js" */
/** @typedef {Opening["parts"][0][0]} Held fields of one object */

const LINE = 0x0a;
const DAMAGED = "a part of this trace is damaged: save it again";
const POLYNOMIAL = 0xedb88320; // of gzip's CRC-32, RFC 1952

/** @param {Uint8Array<ArrayBuffer>} bytes @returns {Promise<Payload>} */
export async function unpack(bytes) {
  const [first, ...others] = membersOf(bytes);
  const { payload, parts } = /** @type {Opening} */ (await inflated(first));
  for (const [, , , steps] of payload.links) walk(steps);
  const held = parts.map((fields, at) => new Part(payload, fields, others[at]));
  whenIdle(() => void openInTurn(held));
  return whole(payload);
}

/**
 * Make runs of the steps between them, as which they travel: see `_steps` in packing.py.
 *
 * @param {number[]} steps
 */
function walk(steps) {
  let [source, target] = [0, 0];
  for (let at = 0; at < steps.length; at += 4) {
    steps[at] += source;
    steps[at + 2] += target;
    source = steps[at] + steps[at + 1];
    target = steps[at + 2] + (steps[at + 3] || steps[at + 1]);
  }
}

/**
 * The parts of a packed payload, each gzipped.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
function membersOf(bytes) {
  let at = bytes.indexOf(LINE) + 1;
  /** @type {number[]} */
  const sizes = JSON.parse(strFromU8(bytes.subarray(0, at)));
  if (sizes.reduce((sum, size) => sum + size, at) !== bytes.length) throw new Error("it is not whole");
  return sizes.map((size) => bytes.subarray(at, (at += size)));
}

/** @param {Uint8Array<ArrayBuffer>} bytes */
function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** @param {Part[]} parts */
async function openInTurn(parts) {
  for (const part of parts) {
    await part.open();
    await new Promise((done) => whenIdle(() => done(null)));
  }
}

/**
 * The fields of a payload that one part of it has. Who reads one before the part was unpacked waits for that:
 * a browser unpacks a stream only while other code runs, so this is done by code of ours.
 */
class Part {
  /** @param {Payload} payload @param {Held[]} fields @param {Uint8Array<ArrayBuffer>} bytes */
  constructor(payload, fields, bytes) {
    /** @type {Uint8Array<ArrayBuffer> | null} null where they are unpacked */
    this.bytes = bytes;
    /** @type {[owner: { [name: string]: unknown }, names: string[]][]} */
    this.owners = fields.map(([where, index, names]) => [objectAt(payload, where, index), names]);
    for (const [owner, names] of this.owners) for (const name of names) this.hold(owner, name);
  }

  /** @param {{ [name: string]: unknown }} owner @param {string} name */
  hold(owner, name) {
    const get = () => {
      this.openNow();
      return owner[name];
    };
    Object.defineProperty(owner, name, { get, enumerable: true, configurable: true });
  }

  openNow() {
    if (!this.bytes) return;
    try {
      const text = gunzipSync(this.bytes);
      const ends = new DataView(this.bytes.buffer, this.bytes.byteOffset + this.bytes.length - 8);
      if (checksum(text) !== ends.getUint32(0, true)) throw new Error(DAMAGED);
      this.fill(JSON.parse(strFromU8(text)));
    } catch (error) {
      this.lose();
      console.error(DAMAGED, error);
    }
  }

  async open() {
    if (!this.bytes) return;
    const values = await inflated(this.bytes).catch(() => null);
    if (!this.bytes) return;
    if (values) this.fill(values);
    else this.lose();
  }

  // Say where the texts of a damaged part would be that it is one; the other parts are there.
  lose() {
    this.fill(this.owners.map(([, names]) => names.map((name) => (name === "text" ? DAMAGED : undefined))));
  }

  /** @param {unknown[][]} values */
  fill(values) {
    this.bytes = null;
    this.owners.forEach(([owner, names], at) =>
      names.forEach((name, n) =>
        Object.defineProperty(owner, name, {
          value: values[at][n],
          writable: true,
          enumerable: true,
          configurable: true,
        }),
      ),
    );
    this.owners = [];
  }
}

/**
 * The CRC-32 of some bytes, which a gzipped part has at its end and fflate does not look at.
 *
 * @param {Uint8Array} bytes
 */
function checksum(bytes) {
  let sum = -1;
  for (const byte of bytes) sum = TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ POLYNOMIAL : sum >>> 1;
  return sum;
});

/**
 * @param {Payload} payload
 * @param {Held[0]} where
 * @param {number} index
 */
function objectAt(payload, where, index) {
  const found = /** @type {object} */ (where === "memory" ? payload.memory : payload[where][index]);
  return /** @type {{ [name: string]: unknown }} */ (found);
}

/**
 * Give each text that another one is the same as its lines back.
 *
 * @param {Payload} payload
 */
function whole(payload) {
  const { artifacts } = payload;
  for (const artifact of artifacts) {
    const { same_text: same } = artifact;
    if (same === undefined) continue;
    Object.defineProperty(artifact, "text", { get: () => artifacts[same].text, enumerable: true });
  }
  return payload;
}

/** @param {DataView<ArrayBuffer> | ArrayBuffer} data */
export const bytesOf = (data) =>
  data instanceof ArrayBuffer
    ? new Uint8Array(data)
    : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

/** @param {string} base64 */
export function decoded(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  // ten times as fast as Uint8Array.from
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}
