// Work that the service does only for a user who has just shown the password: it waits while the page asks, then runs again.
import { ApiError } from '@latchwork/client';
import { signal } from '@preact/signals';

/** Takes the answer of the person who is asked; null while nothing waits. */
export const waitingForPassword = signal<((isConfirmed: boolean) => void) | null>(null);

/** @throws what `work` throws; `confirmation_required` if the person closes the question */
export async function withConfirmation(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ApiError) || error.reason !== 'confirmation_required') throw error;
    const isConfirmed = await new Promise<boolean>((resolve) => (waitingForPassword.value = resolve));
    waitingForPassword.value = null;
    if (!isConfirmed) throw error;
    await work();
  }
}
