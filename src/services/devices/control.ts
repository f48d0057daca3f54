// Commands to one device, a hot path: one call to its DeviceSession, which knows who may; no D1, except
// for a device that has no session.
import { actorOf, type Actor } from '../../domain/access.ts';
import { isIdempotent, visibleResult } from '../../domain/device/commands/command-life.ts';
import { parseControl, type ControlParams } from '../../domain/control-command.ts';
import { invalidInput, unwrap } from '../../domain/refusal.ts';
import type { Page, PageRequest } from '../../domain/pagination.ts';
import type { CommandRequest, CommandView } from '../../domain/device/commands/commands.ts';
import type { LeaseRequest } from '../../domain/device/times/lease.ts';
import { ensureSchema, leaseBodySchema } from '../../protocol/control.ts';
import type { CommandReceipt } from '../../objects/device/commands.ts';
import type { NotNeeded } from '../../objects/device/device-session.ts';
import type { ServiceContext } from '../../context.ts';
import { askDevice, askDeviceAs, decide, requireDeviceId } from './device-access.ts';

/** Answers when the broker has the command, or, with `waitSeconds`, the device. A refused command is not sent later. */
export async function controlDevice(
  context: ServiceContext,
  actor: Actor,
  deviceId: string,
  body: unknown,
  options: Omit<CommandRequest, 'params' | 'lease' | 'ensures'>,
) {
  requireDeviceId(deviceId);
  const ensure = ensureSchema.safeParse(body).data;
  const params = ensure === undefined ? unwrap(parseControl(body)) : { action: ensure.press };
  if (options.ttlSeconds !== undefined && !isIdempotent(params)) {
    throw invalidInput('ttl', 'only toggle with position and angle can be kept');
  }
  const lease = leaseOf(body, params);
  const request = { params, ...options, lease };
  const answer = await askDeviceAs<CommandReceipt | NotNeeded>(context, actor, deviceId, {
    action: 'control',
    repeat: 'once',
    ask: (device) =>
      ensure === undefined
        ? device.command(actorOf(actor), request)
        : device.ensure(actorOf(actor), { ...request, ensures: ensure.value }),
  });
  // Typed as a receipt, as in the protocol.
  return { message: 'command_sent' as const, ...(answer as CommandReceipt) };
}

/** @throws RefusedError for a command that cannot be taken back by a report that shows it */
function leaseOf(body: unknown, params: ControlParams): LeaseRequest | undefined {
  const { lease } = body as { lease?: unknown };
  if (lease === undefined) return undefined;
  const parsed = leaseBodySchema.safeParse(lease);
  if (!parsed.success) throw invalidInput('lease', 'must be {seconds, then}, with 5 to 86400 seconds');
  const then = unwrap(parseControl(parsed.data.then));
  const [own, others] = [params, then].map((sent) => (isIdempotent(sent) ? visibleResult(sent)?.[0] : undefined));
  if (own === undefined || own !== others) {
    throw invalidInput('lease', 'only toggle with position, or angle, and then the like');
  }
  return { seconds: parsed.data.seconds, then };
}

export function pageCommands(context: ServiceContext, actor: Actor, deviceId: string, page: PageRequest) {
  return askDeviceAs<Page<CommandView>>(context, actor, deviceId, {
    action: 'readCommands',
    ask: (device) => device.listCommands(actor, page),
    ifInactive: () => ({ list: [], total: 0, ...page }),
  });
}

type CommandAddress = { deviceId: string; commandId: string };

export function readCommand(context: ServiceContext, actor: Actor, { deviceId, commandId }: CommandAddress) {
  return askDevice<CommandView>(context, deviceId, (device) => device.readCommand(actor, commandId));
}

export function cancelCommand(context: ServiceContext, actor: Actor, { deviceId, commandId }: CommandAddress) {
  return decide(context, deviceId, { kind: 'cancel_requested', actor, commandId });
}
