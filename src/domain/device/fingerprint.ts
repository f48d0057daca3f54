// Tells texts apart: FNV-1a over UTF-16 units, 64 bits wide. For comparing messages of one device with its own, where
// nobody gains by forging: a cryptographic digest costs more than all else a message does.

/** Lower-case hex, 16 characters. */
export function fingerprint(text: string): string {
  // 64-bit FNV offset basis and prime (2^40 + 0x1b3), kept as two halves because numbers are exact to 53 bits only.
  let high = 0xcbf29ce4;
  let low = 0x84222325;
  for (let at = 0; at < text.length; at++) {
    low = (low ^ text.charCodeAt(at)) >>> 0;
    const product = low * 0x1b3;
    high = (Math.imul(high, 0x1b3) + (low << 8) + Math.floor(product / 0x100000000)) >>> 0;
    low = product >>> 0;
  }
  return high.toString(16).padStart(8, '0') + low.toString(16).padStart(8, '0');
}
