// Replies of the broker itself to what the Worker publishes, mosquitto's to its commands: subscribes to their topics when
// first asked, and finds the one message that is waited for. It understands none of them.
import { maxReplyLength } from '../../../src/protocol/bridge.ts';

type Waiting = { topic: string; containing: string; finish: (text: string | undefined) => void };

/** @param subscribe resolves with whether the broker granted the topic */
export function createReplies(subscribe: (topic: string) => Promise<boolean>) {
  const subscribed = new Map<string, Promise<boolean>>();
  const waiting = new Set<Waiting>();
  const ended = Promise.withResolvers<false>();
  return {
    /** Asks the broker once for each topic, and again if it refused. */
    subscribe: async (topic: string): Promise<boolean> => {
      const granted = subscribed.get(topic) ?? subscribe(topic);
      subscribed.set(topic, granted);
      if (await Promise.race([granted, ended.promise])) return true;
      subscribed.delete(topic);
      return false;
    },

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
      ended.resolve(false);
      for (const { finish } of [...waiting]) finish(undefined);
    },
  };
}
