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
  /** Memory only: when the measurement was saved, until it is reported again. Newer ones may have been lost with the object. */
  measurementSavedAtMs: number | null;
};

/** The properties of one report, and those of them that differ from what was reported before. */
export type PropertyReport = { reported: ReadonlyMap<string, Json>; changed: ReadonlyMap<string, Json> };

type PositionChange = { position: Position; time: number };

export const maxProperties = 64;
/** It differs in nearly every report: alone it is saved this often. */
export const measurement = 'wifi_rssi';
const saveMeasurementEveryMs = 30 * minuteMs;

/** `positions`, oldest first: its index in `words`, and the time since the change before (the first: since 1970). */
type SavedProperties = Omit<PropertiesSlice, 'positions' | 'measurementSavedAtMs'> & {
  positions: { words: Position[]; of: number[]; afterMs: number[] };
};

export const propertiesSlice: Slice<PropertiesSlice, SavedProperties> = {
  initial: { values: [], positionChanges: 0, positions: [], measurementSavedAtMs: null },
  row: 'activity',
  save: ({ values, positionChanges, positions }) => {
    const saved: SavedProperties['positions'] = { words: [], of: [], afterMs: [] };
    let beforeMs = 0;
    for (const { position, time } of positions) {
      const index = saved.words.indexOf(position);
      saved.of.push(index === -1 ? saved.words.push(position) - 1 : index);
      saved.afterMs.push(time - beforeMs);
      beforeMs = time;
    }
    return { values, positionChanges, positions: saved };
  },
  read: ({ positions: { words, of, afterMs }, ...others }) => {
    let time = 0;
    const positions = of.flatMap((word, index) => {
      time += afterMs[index] ?? 0;
      const position = words[word];
      return position === undefined ? [] : [{ position, time }];
    });
    // The row is written whole, with the last change that was worth it.
    const savedAtMs = Math.max(time, ...others.values.map(([, , arrivedAtMs]) => arrivedAtMs));
    const hasMeasurement = others.values.some(([name]) => name === measurement);
    return { ...others, positions, measurementSavedAtMs: hasMeasurement ? savedAtMs : null };
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
      return name !== measurement || atMs - before[2] >= saveMeasurementEveryMs;
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

export function applyReport(
  state: DeviceState,
  { reported, changed }: PropertyReport,
  arrivedAtMs: number,
): DeviceState {
  const { values, positionChanges, positions } = state.properties;
  const measurementSavedAtMs = reported.has(measurement) ? null : state.properties.measurementSavedAtMs;
  if (changed.size === 0 && measurementSavedAtMs === state.properties.measurementSavedAtMs) return state;
  const others = values.filter(([name]) => !changed.has(name));
  const arrived = [...changed].map(([name, value]) => [name, value, arrivedAtMs] as const);
  const next = { values: [...others, ...arrived], positionChanges, positions, measurementSavedAtMs };
  const position = changed.get('position');
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
