// Tells texts apart, 53 bits wide: for comparing messages of one device with its own. Nothing secret and nothing that
// somebody else could gain by forging: it is no cryptographic digest, which costs more than all else a message does.

export function fingerprint(text: string): string {
  let low = 0xdeadbeef;
  let high = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    low = Math.imul(low ^ unit, 0x9e3779b1);
    high = Math.imul(high ^ unit, 0x5f356495);
  }
  low = Math.imul(low ^ (low >>> 16), 0x85ebca6b) ^ Math.imul(high ^ (high >>> 13), 0xc2b2ae35);
  high = Math.imul(high ^ (high >>> 16), 0x85ebca6b) ^ Math.imul(low ^ (low >>> 13), 0xc2b2ae35);
  return ((high & 0x1fffff) * 0x100000000 + (low >>> 0)).toString(36);
}
