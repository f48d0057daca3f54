// Slice: the last reported value of each property, and the number of position changes.
import { knownProperties, positionSchema } from '../../protocol/mqtt.ts';
import type { Json } from '../json.ts';
import { appendHistory } from './history.ts';
import type { DeviceState, PropertiesSlice } from './state.ts';

export const maxProperties = 64;
/** Measurements differ in nearly every report: alone they are saved this often. */
const saveMeasurementsEveryMs = 30 * 60_000;

export const noProperties: PropertiesSlice = { values: [], positionChanges: 0 };

/** Which reported properties are new or different. Unknown names are kept up to a limit, the documented ones always. */
export function changedProperties(
  known: PropertiesSlice['values'],
  reported: ReadonlyMap<string, Json>,
): Map<string, Json> {
  const changes = new Map<string, Json>();
  for (const [name, value] of reported) {
    const before = known.find(([one]) => one === name);
    const isFull = known.length + changes.size >= maxProperties;
    if (before === undefined && isFull && !Object.hasOwn(knownProperties, name)) continue;
    if (before === undefined || !isSame(before[1], value)) changes.set(name, value);
  }
  return changes;
}

export function applyChanges(state: DeviceState, changes: ReadonlyMap<string, Json>, arrivedAtMs: number): DeviceState {
  if (changes.size === 0) return state;
  const { values, positionChanges } = state.properties;
  const others = values.filter(([name]) => !changes.has(name));
  const changed = [...changes].map(([name, value]) => [name, value, arrivedAtMs] as const);
  const position = changes.has('position') ? positionSchema.safeParse(changes.get('position')) : undefined;
  const number = positionChanges + (position?.success === true ? 1 : 0);
  const next = { ...state, properties: { values: [...others, ...changed], positionChanges: number } };
  if (position?.success !== true) return next;
  return appendHistory(next, { kind: 'position', number, entry: { position: position.data, time: arrivedAtMs } });
}

/** Whether the values differ enough from the saved ones to be worth a row. */
export function arePropertiesWorthSaving(saved: PropertiesSlice, present: PropertiesSlice): boolean {
  if (saved === present) return false;
  const savedByName = new Map(saved.values.map((entry) => [entry[0], entry]));
  return present.values.some(([name, value, atMs]) => {
    const before = savedByName.get(name);
    if (before === undefined) return true;
    if (isSame(before[1], value)) return false;
    return name !== 'wifi_rssi' || atMs - before[2] >= saveMeasurementsEveryMs;
  });
}

function isSame(one: Json, other: Json): boolean {
  return one === other || (typeof other === 'object' && JSON.stringify(one) === JSON.stringify(other));
}
