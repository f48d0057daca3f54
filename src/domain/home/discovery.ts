// The messages of a home about one device: Home Assistant's discovery by device (home-assistant.io/integrations/mqtt, "MQTT discovery"),
// presence and state. Pure. It says nothing that the device did not report: no entity is optimistic, and null is "unknown".
import { commandStates } from '../../protocol/vocabulary.ts';
import { bridgeStateTopic, homeTopicsOf } from './clients.ts';
import type { HomeOutcome, HomeView } from './view.ts';

/** Of the record in D1. */
export type HomeRecord = {
  deviceId: string;
  name: string;
  firmwareVersion: string;
  chipModel: string;
  product: { name: string; model: string; uiTemplate: string };
};

/** What the discovery of a device depends on beside its record. */
export type HomeParts = Pick<HomeView, 'controlMode' | 'mayControl' | 'hasActual'> & { hasTwoPositions: boolean };

export function homePartsOf({ product }: HomeRecord, { controlMode, mayControl, hasActual }: HomeView): HomeParts {
  return { controlMode, mayControl, hasActual, hasTwoPositions: product.uiTemplate === 'two_position' };
}

type Message = [topic: string, payload: string];

export function homeStateOf(deviceId: string, view: HomeView): Message[] {
  const topics = homeTopicsOf(deviceId);
  const { position, angle, rssi, actual } = view;
  const { state: outcome, ...detail } = view.outcome ?? noOutcome;
  return [
    [topics.availability, view.isOnline ? 'online' : 'offline'],
    [topics.state, JSON.stringify({ position, angle, rssi, actual, outcome, outcome_detail: detail })],
  ];
}

export function homeInfoOf({ deviceId, firmwareVersion, chipModel }: HomeRecord): Message {
  return [homeTopicsOf(deviceId).info, JSON.stringify({ firmware: firmwareVersion || null, chip: chipModel || null })];
}

const noOutcome: Record<keyof HomeOutcome, null> = { state: null, reason: null, command: null, time: null };

/** The names of members are Home Assistant's abbreviations. @param origin of the service, for a link to its console */
export function homeDiscoveryOf(record: HomeRecord, parts: HomeParts, origin: string): Message {
  const { deviceId, name, firmwareVersion, chipModel, product } = record;
  const { config, availability } = homeTopicsOf(deviceId);
  const discovery = {
    dev: {
      ids: [`latchwork_${deviceId}`],
      name,
      mdl: product.name,
      ...(product.model !== '' && { mdl_id: product.model }),
      ...(firmwareVersion !== '' && { sw: firmwareVersion }),
      ...(chipModel !== '' && { hw: chipModel }),
      cu: `${origin}/#/devices/${deviceId}`,
    },
    o: { name: 'Latchwork', url: origin },
    avty: [{ t: availability }, { t: bridgeStateTopic, pl_avail: '1', pl_not_avail: '0' }],
    avty_mode: 'all',
    cmps: Object.fromEntries(
      componentsOf(deviceId, parts).map(([part, { p, ...component }]) => {
        // One that is only its platform is removed.
        if (Object.keys(component).length === 0) return [part, { p }];
        return [part, { p, uniq_id: `latchwork_${deviceId}_${part}`, qos: 1, ...component }];
      }),
    ),
  };
  return [config, JSON.stringify(discovery)];
}

type Component = { p: string } & Record<string, unknown>;

const modesWith: Record<'position' | 'angle' | 'press', readonly string[]> = {
  position: ['toggle', 'generic'],
  angle: ['dimmer', 'generic'],
  press: ['pulse', 'generic'],
};

/**
 * Each part always, so that one that the device has no longer is removed. A part has one platform for ever: with another, the former
 * entity would stay.
 */
function componentsOf(deviceId: string, parts: HomeParts): [part: string, component: Component][] {
  const { state: stat_t, info, set: cmd_t, press } = homeTopicsOf(deviceId);
  const { controlMode, mayControl, hasActual, hasTwoPositions } = parts;
  const ifControls = (isShown: boolean, component: Component): Component =>
    isShown && mayControl ? component : { p: component.p };
  const has = (ability: keyof typeof modesWith) => modesWith[ability].includes(controlMode);
  const val_tpl = '{{ value_json.position }}';
  const position = { p: 'select', name: 'Position', stat_t, cmd_t, val_tpl, ops: ['up', 'middle', 'down'] };
  const switched = {
    ...{ p: 'switch', name: null, stat_t, cmd_t, pl_on: 'up', pl_off: 'down', stat_on: 'up', stat_off: 'down' },
    val_tpl: "{{ value_json.position if value_json.position in ['up', 'down'] else None }}",
  };
  const angle = { p: 'number', name: 'Angle', stat_t, cmd_t, val_tpl: '{{ value_json.angle }}', min: 0, max: 180 };
  const actual = {
    ...{ p: 'switch', name: 'Seen', stat_t, cmd_t, pl_on: 'on', pl_off: 'off', stat_on: 'on', stat_off: 'off' },
    val_tpl: '{{ value_json.actual }}',
  };
  const reported = { p: 'sensor', name: 'Reported position', stat_t, val_tpl };
  const seen = { p: 'sensor', name: 'Seen', stat_t, val_tpl: '{{ value_json.actual }}' };
  const rssi = { dev_cla: 'signal_strength', unit_of_meas: 'dBm', stat_cla: 'measurement' };
  const diagnostic = { p: 'sensor', ent_cat: 'diagnostic' };
  const isWatched = !mayControl || controlMode === 'readonly';
  return [
    ['switch', ifControls(has('position') && hasTwoPositions, switched)],
    ['position', ifControls(has('position') && !hasTwoPositions, position)],
    ['angle', ifControls(has('angle'), angle)],
    ['pulse', ifControls(has('press'), { p: 'button', name: 'Pulse', cmd_t: press, pl_prs: 'pulse' })],
    ['trigger', ifControls(has('press'), { p: 'button', name: 'Trigger', cmd_t: press, pl_prs: 'trigger' })],
    ['actual', ifControls(hasActual, actual)],
    ['seen', hasActual && !mayControl ? seen : { p: 'sensor' }],
    ['reported', isWatched ? reported : { p: 'sensor' }],
    ['rssi', { ...diagnostic, name: 'Signal strength', stat_t, val_tpl: '{{ value_json.rssi }}', ...rssi }],
    ['firmware', { ...diagnostic, name: 'Firmware', stat_t: info, val_tpl: '{{ value_json.firmware }}' }],
    [
      'outcome',
      {
        ...{ ...diagnostic, name: 'Last outcome', stat_t, val_tpl: '{{ value_json.outcome }}' },
        ...{ dev_cla: 'enum', ops: [...commandStates, 'refused'] },
        ...{ json_attr_t: stat_t, json_attr_tpl: '{{ value_json.outcome_detail | tojson }}' },
      },
    ],
  ];
}
