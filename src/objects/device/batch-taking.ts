// One batch of a device's messages: as one decision, or message by message where storage refuses the whole, so that only the
// message at fault is put aside. Pushes nothing.
import type { DeviceEvent, Ingested } from '../../domain/device/core/events.ts';
import { describeError, log } from '../../log.ts';
import type { StoredDevice } from './stored-device.ts';

type Batch = Omit<Extract<DeviceEvent, { kind: 'messages_received' }>, 'kind'>;

export function takeBatch(device: StoredDevice, deviceId: string, { messages, ...from }: Batch): Ingested {
  const { spoolId } = from;
  try {
    return device.decide({ kind: 'messages_received', ...from, messages });
  } catch (error) {
    log('error', 'batch not saved, its messages are taken one by one', { deviceId, ...describeError(error) });
  }
  const others: Ingested['others'] = [];
  let last: Ingested | undefined;
  for (const [position, message] of messages.entries()) {
    try {
      const taken = device.decide({ kind: 'messages_received', ...from, messages: [message] });
      others.push(...taken.others.map((other) => ({ ...other, position })));
      last = taken;
    } catch (error) {
      const { seq } = message;
      log('error', 'message put aside', { deviceId, spoolId, seq, ...describeError(error) });
      device.decide({ kind: 'message_put_aside', spoolId, seq });
      others.push({ result: 'rejected', reason: 'handling_failed', position });
    }
  }
  return { subscriptions: [], generations: [], readers: [], ...last, others };
}
