// What is being printed instead of a screen: the codes of an import, or nothing.
import { signal } from '@preact/signals';
import type { DeviceCode } from './device-code.ts';

export const codeSheet = signal<readonly DeviceCode[] | null>(null);
