// Who logs in to a home, as CONNECT says it: an API key by its id and value. Whether the key is right, the Worker checks.
import type { ConnectPacket } from '../../protocol/mqtt-codec/client-packets.ts';
import type { ConnectRefusal } from '../direct/answer-codes.ts';
import { textOf } from '../../protocol/mqtt-codec/byte-cursor.ts';
import { isKeyId } from '../topics.ts';
import { birthTopic } from './topics.ts';

export function readHomeLogin(
  packet: ConnectPacket,
): { keyId: string; password: string } | { refusal: ConnectRefusal } {
  const { username: keyId = '', will, hasAuthMethod } = packet;
  if (hasAuthMethod) return { refusal: 'auth_method' };
  const password = packet.password && textOf(packet.password);
  if (!isKeyId(keyId) || password === undefined) return { refusal: 'bad_credentials' };
  // Home Assistant says by it that it is gone: nobody else needs to know.
  if (will !== undefined && will.topic !== birthTopic) return { refusal: 'will_topic' };
  if (will?.isRetained === true) return { refusal: 'will_retain' };
  return { keyId, password };
}
