// MQTT packets that are none, or not what they were: any bytes, whole packets with a byte changed, and their beginnings.
import fc from 'fast-check';

export function malformedPackets(whole: readonly Uint8Array[]): fc.Arbitrary<Uint8Array> {
  const packet = fc.constantFrom(...whole);
  return fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 80 }),
    fc.tuple(packet, fc.nat(), fc.nat({ max: 255 })).map(([bytes, at, byte]) => bytes.with(at % bytes.length, byte)),
    fc.tuple(packet, fc.nat()).map(([bytes, cut]) => bytes.subarray(0, cut % bytes.length)),
  );
}
