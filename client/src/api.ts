// The types of the interface, taken from the service's own routes. Types alone: build.ts writes them out in full, so that
// the published package needs nothing of the service.
import type { Api as Routes } from '../../src/app.ts';

export type { DirectEndReason } from '../../src/domain/direct/answer-codes.ts';
export type { ErrorMessage } from '../../src/protocol/error-status.ts';
export type Api = Routes;
