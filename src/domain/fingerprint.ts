// Tells texts apart: two multiplicative hashes over UTF-16 units, mixed to 53 bits. For comparing messages of one device
// with its own, where nobody gains by forging: a cryptographic digest costs more than all else a message does.

export function fingerprint(text: string): number {
  let low = 0x9e3779b1;
  let high = 0x85ebca77;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    low = Math.imul(low ^ unit, 0x9e3779b1);
    high = Math.imul(high ^ unit, 0x85ebca77);
  }
  // A multiplication carries upwards only, so the high bits are folded back, twice.
  low = Math.imul(low ^ (low >>> 16), 0x85ebca6b) ^ Math.imul(high ^ (high >>> 13), 0xc2b2ae35);
  high = Math.imul(high ^ (high >>> 16), 0x85ebca6b) ^ Math.imul(low ^ (low >>> 13), 0xc2b2ae35);
  return (high >>> 11) * 0x1_0000_0000 + (low >>> 0);
}
