// An image as devices get it: its name in the bucket, its manifest, and the bytes that a request asks for. Pure.
import { manifestSchema, type Manifest } from '../../protocol/firmware.ts';
import { parseJson } from '../json.ts';
import { accept, refuse, type Outcome } from '../refusal.ts';

export const imageNameOf = (productId: number, version: string) => `${productId}/${version}`;

export function readManifest(text: string): Outcome<Manifest> {
  const read = manifestSchema.safeParse(parseJson(text));
  if (read.success) return accept(read.data);
  const [issue] = read.error.issues;
  const path = ['manifest', ...(issue?.path ?? [])].map(String).join('.');
  return refuse({ kind: 'invalid_input', path, problem: issue?.message ?? 'must be JSON' });
}

/** Of RFC 9110, 14.1.2: one range of bytes. Undefined for another one, and for one outside: whole images are no answer to it. */
export function readRange(header: string, size: number): { offset: number; length: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header) ?? [];
  if (first === '') {
    const length = Math.min(Number(last), size);
    return length > 0 ? { offset: size - length, length } : undefined;
  }
  const offset = Number(first);
  const end = last === '' ? size : Math.min(Number(last) + 1, size);
  return offset < size && offset < end ? { offset, length: end - offset } : undefined;
}
