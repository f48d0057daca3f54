// Pages of contract 2.8, and the cursor with which the next page begins. The request schema limits the size and refuses
// what is invalid.

export type PageRequest = { page: number; size: number };
export type Page<T> = { list: T[]; total: number; page: number; size: number };

export type ListPosition = { createdAt: number; id: number };

/** Pages reach so many devices or serial numbers, because a page costs what stands before it. Lists of devices go on with `after`. */
export const pagedDevices = 10_000;

export function offsetOf({ page, size }: PageRequest): number {
  return (page - 1) * size;
}

export function formatCursor({ createdAt, id }: ListPosition): string {
  return `${createdAt.toString(36)}-${id.toString(36)}`;
}
