// Tells texts apart: two multiplicative hashes over UTF-16 units, mixed to 53 bits. For comparing messages of one device
// with its own, where nobody gains by forging: a cryptographic digest costs more than all else a message does.

export function fingerprint(text: string): number {
  let one = 0x9e3779b1;
  let other = 0x85ebca77;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    one = Math.imul(one ^ unit, 0x9e3779b1);
    other = Math.imul(other ^ unit, 0x85ebca77);
  }
  // A multiplication carries upwards only, so the high bits are folded back, twice.
  one = Math.imul(one ^ (one >>> 16), 0x85ebca6b) ^ Math.imul(other ^ (other >>> 13), 0xc2b2ae35);
  other = Math.imul(other ^ (other >>> 16), 0x85ebca6b) ^ Math.imul(one ^ (one >>> 13), 0xc2b2ae35);
  return (other >>> 11) * 0x1_0000_0000 + (one >>> 0);
}
