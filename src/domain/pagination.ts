// Pages of contract 2.8. The request schema limits the size and refuses what is invalid.

export type PageRequest = { page: number; size: number };
export type Page<T> = { list: T[]; total: number; page: number; size: number };

export function offsetOf({ page, size }: PageRequest): number {
  return (page - 1) * size;
}
