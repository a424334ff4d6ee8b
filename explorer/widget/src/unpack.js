// The payload as it travels: gzipped JSON, in a page as base64.

/** @import { Payload } from "./wire.js" */

/** @param {Uint8Array<ArrayBuffer>} bytes @returns {Promise<Payload>} */
export async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return whole(await new Response(stream).json());
}

/**
 * Give each text that another one is the same as its lines back.
 *
 * @param {Payload} payload
 */
function whole(payload) {
  const { artifacts } = payload;
  for (const artifact of artifacts)
    if (artifact.same_text !== undefined) artifact.text = artifacts[artifact.same_text].text;
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
