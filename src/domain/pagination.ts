// Pages of interface 2.8. A larger size is cut, everything else invalid is the request schema's to refuse.

export type PageRequest = { page: number; size: number };
export type Page<T> = { list: T[]; total: number; page: number; size: number };

export function offsetOf({ page, size }: PageRequest): number {
  return (page - 1) * size;
}
