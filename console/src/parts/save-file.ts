// Has the browser save what the page made or was answered. Shows nothing.
import { dataOf, type Client } from '@latchwork/client';

export function saveFile(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Of a call that can answer with CSV. */
export const asCsv = { headers: { Accept: 'text/csv' } };

/** @throws ApiError, NoAnswerError */
export async function saveAnswer(
  call: ReturnType<Client['devices'][':deviceId']['usage' | 'history']['$get']>,
  name: string,
): Promise<void> {
  const response = await call;
  if (!response.ok) await dataOf(Promise.resolve(response));
  saveFile(await response.blob(), name);
}
