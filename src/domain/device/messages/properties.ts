// Slice: the last reported value of each property, and the last changes of the position. The changes are saved in columns
// within the slice's row: a moving device writes one row for all that a batch brings, and not one more for each change.
import { minuteMs } from '../../time.ts';
import type { Slice, DeviceState } from '../core/state.ts';
import { isKnownProperty, knownProperties, type Position } from '../../../protocol/mqtt.ts';
import type { Json } from '../../json.ts';
import { historySize } from '../core/history.ts';

export type PropertiesSlice = {
  values: readonly (readonly [name: string, value: Json, arrivedAtMs: number])[];
  positionChanges: number;
  positions: readonly PositionChange[];
};

type PositionChange = { position: Position; time: number };

export const maxProperties = 64;
/** Measurements differ in nearly every report: alone they are saved this often. */
const saveMeasurementsEveryMs = 30 * minuteMs;

/** `positions`, oldest first: its index in `words`, and the time since the change before (the first: since 1970). */
type SavedProperties = Omit<PropertiesSlice, 'positions'> & {
  positions: { words: Position[]; of: number[]; afterMs: number[] };
};

export const propertiesSlice: Slice<PropertiesSlice, SavedProperties> = {
  initial: { values: [], positionChanges: 0, positions: [] },
  row: 'activity',
  save: ({ positions, ...others }) => {
    const saved: SavedProperties['positions'] = { words: [], of: [], afterMs: [] };
    let beforeMs = 0;
    for (const { position, time } of positions) {
      const index = saved.words.indexOf(position);
      saved.of.push(index === -1 ? saved.words.push(position) - 1 : index);
      saved.afterMs.push(time - beforeMs);
      beforeMs = time;
    }
    return { ...others, positions: saved };
  },
  read: ({ positions: { words, of, afterMs }, ...others }) => {
    let time = 0;
    const positions = of.flatMap((word, index) => {
      time += afterMs[index] ?? 0;
      const position = words[word];
      return position === undefined ? [] : [{ position, time }];
    });
    return { ...others, positions };
  },
  // A change of the position always is, even if it changed back.
  isWorthSaving: ({ properties: saved }, { properties }) => {
    if (saved === properties) return false;
    if (saved.positionChanges !== properties.positionChanges) return true;
    const savedByName = new Map(saved.values.map((entry) => [entry[0], entry]));
    return properties.values.some(([name, value, atMs]) => {
      const before = savedByName.get(name);
      if (before === undefined) return true;
      if (isSame(before[1], value)) return false;
      return name !== 'wifi_rssi' || atMs - before[2] >= saveMeasurementsEveryMs;
    });
  },
  onNewOwner: 'forget',
};

export function changedProperties(
  values: PropertiesSlice['values'],
  reported: ReadonlyMap<string, Json>,
): Map<string, Json> {
  const changes = new Map<string, Json>();
  for (const [name, value] of reported) {
    const before = values.find(([valueName]) => valueName === name);
    const isFull = values.length + changes.size >= maxProperties;
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

function isSame(value: Json, other: Json): boolean {
  return value === other || (typeof other === 'object' && JSON.stringify(value) === JSON.stringify(other));
}
