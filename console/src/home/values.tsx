// What to type into Home Assistant, or into the settings of a mosquitto beside it, with a key that was just made.
import { useEffect, useRef } from 'preact/hooks';
import { Once } from '../parts/dialog.tsx';
import { homeTexts as words } from '../texts/home.ts';

export type HomeLogin = { keyId: string; apiKey: string };

const webSocketPath = '/mqtt/home';
const bridgeLines = ({ keyId, apiKey }: HomeLogin) =>
  `connection latchwork
address HOST:8883
bridge_capath /etc/ssl/certs
remote_username ${keyId}
remote_password ${apiKey}
notifications_local_only true
notification_topic latchwork/bridge/state
topic homeassistant/device/# in 1
topic latchwork/# in 1
topic latchwork/+/set out 0
topic latchwork/+/press out 0`;

export function HomeValues({ login, onClose }: { login: HomeLogin; onClose: () => void }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const isSecure = location.protocol === 'https:';
  const usualPort = isSecure ? '443' : '80';
  const facts = [
    [words.validation, words.validations[isSecure ? 'https' : 'http']],
    [words.protocol, words.protocols],
    [words.transport, words.webSocket],
  ];
  return (
    <section class="card" aria-label={words.values}>
      <h2 ref={heading} tabIndex={-1}>
        {words.values}
      </h2>
      <p>{words.where}</p>
      {!isSecure && <p class="notice warn">{words.notSecure}</p>}
      <div class="pair">
        <Once label={words.broker} value={location.hostname} />
        <Once label={words.port} value={location.port === '' ? usualPort : location.port} />
      </div>
      <div class="pair">
        <Once label={words.username} value={login.keyId} />
        <Once label={words.password} value={login.apiKey} />
      </div>
      <p class="hint">{words.once}</p>
      <h3>{words.advanced}</h3>
      <p class="hint">{words.advancedHint}</p>
      <dl class="facts">
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Once label={words.path} value={webSocketPath} />
      <details class="more">
        <summary>{words.bridge}</summary>
        <p class="hint">{words.bridgeHint}</p>
        <Once label={words.bridgeLines} value={bridgeLines(login)} />
        <p class="hint">{words.bridgeQos}</p>
      </details>
      <button type="button" onClick={onClose}>
        {words.done}
      </button>
    </section>
  );
}
