// Slice: the last reported value of each property, and the last changes of the position. The changes are saved in columns
// within the slice's row: a moving device writes one row for all that a batch brings, and not one more for each change.
import { isKnownProperty, knownProperties, type Position } from '../../protocol/mqtt.ts';
import type { Json } from '../json.ts';
import { historySize } from './history.ts';
import type { DeviceState, PositionChange, PropertiesSlice } from './state.ts';

export const maxProperties = 64;
/** Measurements differ in nearly every report: alone they are saved this often. */
const saveMeasurementsEveryMs = 30 * 60_000;

export const noProperties: PropertiesSlice = { values: [], positionChanges: 0, positions: [] };

/** As it is saved. Absent `positions`: an earlier version wrote it, which keeps them in a table. */
export type SavedProperties = Omit<PropertiesSlice, 'positions'> & {
  /** Oldest first: which of `words` it is, and how long after the one before (the first: after 1970). */
  positions?: { words: Position[]; of: number[]; afterMs: number[] };
};

export function saveProperties({ positions, ...others }: PropertiesSlice): SavedProperties {
  const saved: Required<SavedProperties>['positions'] = { words: [], of: [], afterMs: [] };
  let beforeMs = 0;
  for (const { position, time } of positions) {
    const known = saved.words.indexOf(position);
    saved.of.push(known === -1 ? saved.words.push(position) - 1 : known);
    saved.afterMs.push(time - beforeMs);
    beforeMs = time;
  }
  return { ...others, positions: saved };
}

/** @param readTable the positions of an earlier version, oldest first */
export function readProperties(saved: SavedProperties, readTable: () => PositionChange[]): PropertiesSlice {
  if (saved.positions === undefined) return { ...noProperties, ...saved, positions: readTable() };
  const { words, of, afterMs } = saved.positions;
  let time = 0;
  const positions = of.flatMap((word, index) => {
    time += afterMs[index] ?? 0;
    const position = words[word];
    return position === undefined ? [] : [{ position, time }];
  });
  return { ...noProperties, ...saved, positions };
}

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
  const { values, positionChanges, positions } = state.properties;
  const others = values.filter(([name]) => !changes.has(name));
  const changed = [...changes].map(([name, value]) => [name, value, arrivedAtMs] as const);
  const next = { values: [...others, ...changed], positionChanges, positions };
  const position = changes.get('position');
  if (isPosition(position)) {
    next.positionChanges += 1;
    next.positions = [...positions.slice(1 - historySize), { position, time: arrivedAtMs }];
  }
  return { ...state, properties: next };
}

function isPosition(value: Json | undefined): value is Position {
  return isKnownProperty('position', value);
}

/** Whether the values differ enough from the saved ones to be worth a row; a change of the position always is, even one and back. */
export function arePropertiesWorthSaving(saved: PropertiesSlice, present: PropertiesSlice): boolean {
  if (saved === present) return false;
  if (saved.positionChanges !== present.positionChanges) return true;
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
