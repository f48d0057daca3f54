// What the console says of a failed call and of a reason. A word of the service has its sentence in the folder texts; a word that is
// unknown here is shown as the service said it.
import { ApiError, NoAnswerError } from '@latchwork/client';
import { texts } from './texts.ts';

/** @param explain sentences for the place where it failed, by the word of the service */
export function describeError(error: unknown, explain: Readonly<Record<string, string>> = {}): string {
  if (error instanceof InputError) return error.message;
  if (error instanceof NoAnswerError) return error.isTimeout ? texts.errors.timeout : texts.errors.no_answer;
  if (!(error instanceof ApiError)) throw error;
  const special = explain[error.reason];
  if (special !== undefined) return special;
  if (error.reason === 'too_many_requests') return texts.errors.too_many_requests(error.retryAfterSeconds);
  const sentences: Partial<Record<string, string>> = texts.errors.sentences;
  const sentence = sentences[error.reason];
  const detail = error.message.slice(error.reason.length + 2);
  if (sentence === undefined) return texts.errors.unknown(error.message);
  return detail === '' ? sentence : `${sentence} (${detail})`;
}

/** The sentence of a reason. A newer service may give a word that has none yet. */
export function explainReason(reason: string, sentences: Readonly<Partial<Record<string, string>>>): string {
  return sentences[reason] ?? reason;
}

/** Something that the page itself can say is wrong with what was given; its message is for the person. */
export class InputError extends Error {
  override readonly name = 'InputError';
}
