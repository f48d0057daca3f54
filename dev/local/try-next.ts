// The lines a newcomer can paste next, with ids and a token that work. Text only.
import { styleText } from 'node:util';
import type { Demo } from './demo.ts';

export type Addresses = { api: string; relay: string; mqttHost: string; mqttPort: number };

export function describeDemoSteps(addresses: Addresses, demo: Demo): string[] {
  const { api } = addresses;
  const { activation, account } = demo;
  const { username, password } = activation.mqtt;
  const filter = activation.topics.status.replace(/status$/, '#');
  const device = `${api}/api/v1/devices/${activation.deviceId}`;
  const authorization = '-H "Authorization: Bearer $TOKEN"';
  const json = "-H 'Content-Type: application/json'";
  const activationBody = JSON.stringify({ productKey: account.productKey, deviceSN: 'MY-BOARD-1' });
  const [host, port] = [addresses.mqttHost, addresses.mqttPort];
  const credentials = [account.email, account.password].map(encodeURIComponent).join('/');
  return [
    title('Open the console as the demo user, and press its switch'),
    `${api}/#/sign-in/${credentials}`,
    '',
    title('Try next, in another terminal'),
    `TOKEN=${account.token}`,
    `curl -s ${api}/api/v1/devices ${authorization}`,
    `curl -s ${device}/status ${authorization}`,
    `curl -s ${device}/control ${authorization} ${json} -d '{"action":"pulse","duration":800}'`,
    '',
    title('Watch the relay (in this folder)'),
    relayLine(addresses.relay, username, password, filter),
    '',
    title('Act as a device with the mosquitto clients; a second connection of the same device ends the first'),
    `BOARD=$(curl -s ${api}/api/v1/devices/activate ${json} -d '${activationBody}')`,
    `of() { echo "$BOARD" | sed 's/.*"'$1'":"\\([^"]*\\)".*/\\1/'; }`,
    `board() { tool=$1; shift; $tool -h ${host} -p ${port} -i "$(of clientId)" -u "$(of username)" -P "$(of password)" "$@"; }`,
    `board mosquitto_pub -t "$(of propertyPost)" -m '{"params":{"position":"middle"}}'`,
    `board mosquitto_sub -t "$(of propertySet)" -v`,
    '',
    styleText(
      'dim',
      `Demo user: ${account.email}, password ${account.password}; the token above is good for two hours.`,
    ),
  ];
}

export function describeFirstSteps({ api }: Addresses): string[] {
  const json = "-H 'Content-Type: application/json'";
  return [
    title('Try next, in another terminal'),
    `curl -s ${api}/api/v1/users/register ${json} -d '{"username":"me@example.com","email":"me@example.com","password":"choose-a-good-one"}'`,
    `curl -s ${api}/api/v1/users/login ${json} -d '{"username":"me@example.com","password":"choose-a-good-one"}'`,
  ];
}

/** node_modules/.bin/node is recent enough for a global WebSocket, whatever Node the machine has. */
function relayLine(url: string, username: string, password: string, filter: string): string {
  const auth = JSON.stringify({ action: 'auth', username, password });
  const subscribe = JSON.stringify({ action: 'subscribe', topic: filter });
  const script = [
    `const s = new WebSocket("${url}")`,
    `s.onopen = () => [${auth}, ${subscribe}].forEach((m) => s.send(JSON.stringify(m)))`,
    's.onmessage = (m) => console.log(m.data)',
  ];
  return `node_modules/.bin/node -e '${script.join('; ')}'`;
}

function title(text: string): string {
  return styleText('bold', `${text}:`);
}
