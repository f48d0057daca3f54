// Replies of the broker itself to what the Worker publishes, mosquitto's to its commands: finds the one message that is waited
// for. It understands none of them.
import { maxReplyLength } from '../../../src/protocol/bridge.ts';

type Waiting = { topic: string; containing: string; finish: (text: string | undefined) => void };

export function createReplies() {
  const waiting = new Set<Waiting>();
  return {
    /** `text` resolves with the reply, or with nothing after `withinMs`, a cancellation or the end of the connection. */
    await: ({ topic, containing, withinMs }: { topic: string; containing: string; withinMs: number }) => {
      const { promise: text, resolve } = Promise.withResolvers<string | undefined>();
      const finish = (reply: string | undefined): void => {
        clearTimeout(timer);
        waiting.delete(own);
        resolve(reply);
      };
      const own = { topic, containing, finish };
      const timer = setTimeout(() => finish(undefined), withinMs);
      waiting.add(own);
      return { text, cancel: () => finish(undefined) };
    },

    take: (topic: string, text: string): void => {
      if (text.length > maxReplyLength) return;
      for (const entry of waiting) if (entry.topic === topic && text.includes(entry.containing)) entry.finish(text);
    },

    end: (): void => {
      for (const { finish } of [...waiting]) finish(undefined);
    },
  };
}
