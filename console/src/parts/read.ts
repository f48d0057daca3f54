// What a part of a screen reads when it is first shown, and again with the next connection if that failed.
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { whenLiveAgain } from '../state/live.ts';

/**
 * The value, null until it is there, and in words why it could not be read.
 * @param explain sentences for this place, by the word of the service
 * @param version another one has it read again
 */
export function useRead<Value>(
  read: () => Promise<Value>,
  explain?: Readonly<Record<string, string>>,
  version: number | string = 0,
) {
  const value = useSignal<Value | null>(null);
  const problem = useSignal('');
  useEffect(() => {
    // What was asked for before may be answered later.
    let isWanted = true;
    const start = (): void => {
      problem.value = '';
      read().then(
        (found) => isWanted && (value.value = found),
        (error: unknown) => isWanted && (problem.value = describeError(error, explain)),
      );
    };
    start();
    const end = whenLiveAgain(() => problem.peek() !== '' && start());
    return () => {
      isWanted = false;
      end();
    };
  }, [version]);
  return { value, problem: problem.value };
}
