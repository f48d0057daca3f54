// The lines a newcomer can paste next, with ids and a token that work. Text only.
import { styleText } from 'node:util';
import type { Demo } from './demo.ts';

export type Addresses = { api: string; relay: string; mqttHost: string; mqttPort: number };

export function describeDemoSteps(
  { api, relay, mqttHost, mqttPort }: Addresses,
  { activation, productKey, account }: Demo,
): string {
  const device = `${api}/api/v1/devices/${activation.deviceId}`;
  const json = "-H 'Content-Type: application/json'";
  const authorization = '-H "Authorization: Bearer $TOKEN"';
  const activationBody = JSON.stringify({ productKey, deviceSN: 'MY-BOARD-1' });
  const credentials = [account.email, account.password].map(encodeURIComponent).join('/');
  return `
${title('Open the console as the demo user, and press its switch')}
${api}/#/sign-in/${credentials}

${title('Try next, in another terminal')}
TOKEN=${account.token}
curl -s ${api}/api/v1/devices ${authorization}
curl -s ${device}/status ${authorization}
curl -s ${device}/control ${authorization} ${json} -d '{"action":"pulse","duration":800}'

${title('Watch the relay (in this folder)')}
${relayLine(relay, activation)}

${title('Act as a device with the mosquitto clients; a second connection of the same device ends the first')}
BOARD=$(curl -s ${api}/api/v1/devices/activate ${json} -d '${activationBody}')
of() { echo "$BOARD" | sed 's/.*"'$1'":"\\([^"]*\\)".*/\\1/'; }
board() { tool=$1; shift; $tool -h ${mqttHost} -p ${mqttPort} -i "$(of clientId)" -u "$(of username)" -P "$(of password)" "$@"; }
board mosquitto_pub -t "$(of propertyPost)" -m '{"params":{"position":"middle"}}'
board mosquitto_sub -t "$(of propertySet)" -v

${styleText('dim', `Demo user: ${account.email}, password ${account.password}; the token above is good for two hours.`)}
`;
}

/** node_modules/.bin/node is recent enough for a global WebSocket, whatever Node the machine has. */
function relayLine(url: string, { mqtt, topics }: Demo['activation']): string {
  const auth = JSON.stringify({ action: 'auth', username: mqtt.username, password: mqtt.password });
  const subscribe = JSON.stringify({ action: 'subscribe', topic: topics.status.replace(/status$/, '#') });
  const open = `s.onopen = () => [${auth}, ${subscribe}].forEach((m) => s.send(JSON.stringify(m)))`;
  return `node_modules/.bin/node -e 'const s = new WebSocket("${url}"); ${open}; s.onmessage = (m) => console.log(m.data)'`;
}

function title(text: string): string {
  return styleText('bold', `${text}:`);
}
