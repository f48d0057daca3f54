// `npm run deploy` with the real wrangler against a stand-in for Cloudflare's API: which steps it takes, and that they can be repeated.
// Nothing here shows that Cloudflare takes what it is sent, or that the Worker runs there.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { CloudflareStandIn, subdomain, token } from '../../rig/services/cloudflare-stand-in.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';

const root = join(import.meta.dirname, '../..');
const toml = readFileSync(join(root, 'wrangler.toml'), 'utf8');
const filled = `${toml.replace('MQTT_HOST = ""', 'MQTT_HOST = "broker.invalid"')}
[env.staging.vars]
MQTT_HOST = "staging.invalid"
`;
const migrations = readdirSync(join(root, 'migrations')).filter((name) => name.endsWith('.sql'));
const url = `https://latchwork.${subdomain}.workers.dev`;
let cloudflare: CloudflareStandIn;
let dir: string;

beforeEach(async () => {
  cloudflare = await CloudflareStandIn.start();
  dir = makeTempDir('deploy');
  writeFileSync(join(dir, 'wrangler.toml'), filled);
  for (const folder of ['src', 'public', 'migrations']) symlinkSync(join(root, folder), join(dir, folder));
});
afterEach(async () => {
  await cloudflare.stop();
  expect(cloudflare.unknown).toEqual([]);
});

/** As npm runs it, which puts the Node of this repository first. */
function deploy(options: string[] = [], environment: NodeJS.ProcessEnv = {}): Promise<{ code: number; text: string }> {
  const env = {
    ...process.env,
    // Of a person, whatever machine runs this test.
    CI: undefined,
    PATH: `${join(root, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}`,
    HOME: dir,
    CLOUDFLARE_API_BASE_URL: cloudflare.url,
    CLOUDFLARE_API_TOKEN: token,
    ...environment,
  };
  const args = [join(root, 'dev/deploy.ts'), '--config', join(dir, 'wrangler.toml'), ...options];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { cwd: dir, env, maxBuffer: 2 ** 26 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), text: stdout + stderr }),
    ).stdin?.end();
  });
}

const fileOf = (name: string, worker = 'latchwork') => join(dir, '.deploy', worker, name);
const read = (name: string, worker?: string) => parseEnv(readFileSync(fileOf(name, worker), 'utf8'));
const secretsOf = (worker: string) => Object.fromEntries(cloudflare.workers.get(worker)?.secrets ?? []);
const bindingOf = (worker: string, name: string) =>
  cloudflare.workers.get(worker)?.bindings.find((binding) => binding.name === name);
const applied = (database: string) =>
  cloudflare.databases.get(database)?.db.prepare('SELECT name FROM d1_migrations').all() ?? [];

it('makes all that is missing, and the second time nothing but a new version; staging is apart', async () => {
  const first = await deploy();
  expect(first).toMatchObject({ code: 0 });
  const secrets = read('secrets.env');
  expect(Object.keys(secrets)).toHaveLength(9);
  expect(secretsOf('latchwork')).toEqual(secrets);
  expect(applied('latchwork')).toHaveLength(migrations.length);
  expect(bindingOf('latchwork', 'DB')).toMatchObject({ id: cloudflare.databases.get('latchwork')?.uuid });
  expect(read('bridge.env')).toEqual({
    WORKER_URL: url,
    BRIDGE_ID: 'bridge-1',
    BRIDGE_SECRET: secrets['BRIDGE_SECRETS'],
    MQTT_URL: 'mqtts://broker.invalid:8883',
    MQTT_USERNAME: 'latchwork-bridge',
    MQTT_PASSWORD: secrets['BRIDGE_MQTT_PASSWORDS'],
  });
  const hook = { HOOK_SECRET: secrets['BROKER_HOOK_SECRETS'], BRIDGE_MQTT_PASSWORD: secrets['BRIDGE_MQTT_PASSWORDS'] };
  expect(read('broker.env')).toEqual(hook);
  expect(read('mqtt-gateway.env')).toEqual({ WORKER_URL: url, GATEWAY_SECRET: secrets['GATEWAY_SECRETS'] });
  expect(read('operator.env')).toEqual({ OPERATOR_SECRET: secrets['OPERATOR_SECRETS'] });
  for (const name of readdirSync(fileOf('.')).filter((name) => name.endsWith('.env')))
    expect(statSync(fileOf(name)).mode & 0o777).toBe(0o600);
  // The doctor looked there, where nothing is.
  expect(first.text).toContain(`FAULT address    latchwork.${subdomain}.workers.dev has no address`);
  expect(first.text).toContain(`npm run operator -- --url ${url} sign-up closed`);
  for (const secret of Object.values(secrets)) expect(first.text).not.toContain(secret);

  // A rotation: the value in front is the one that parts are given.
  const rotated = `${'n'.repeat(43)},${secrets['BRIDGE_SECRETS'] ?? ''}`;
  const path = fileOf('secrets.env');
  writeFileSync(path, readFileSync(path, 'utf8').replace(secrets['BRIDGE_SECRETS'] ?? '', rotated));
  const second = await deploy();
  expect(second).toMatchObject({ code: 0 });
  expect(secretsOf('latchwork')).toEqual({ ...secrets, BRIDGE_SECRETS: rotated });
  expect(read('bridge.env')).toMatchObject({ BRIDGE_SECRET: 'n'.repeat(43) });
  expect([...cloudflare.databases.keys()]).toEqual(['latchwork']);
  expect(cloudflare.workers.get('latchwork')?.uploads).toBe(2);

  expect(await deploy(['--env', 'staging'])).toMatchObject({ code: 0 });
  expect(cloudflare.workers.get('latchwork')?.uploads).toBe(2);
  expect(bindingOf('latchwork-staging', 'MQTT_HOST')).toMatchObject({ text: 'staging.invalid' });
  expect(bindingOf('latchwork-staging', 'MQTT_TLS_PORT')).toMatchObject({ text: '8883' });
  expect(applied('latchwork-staging')).toHaveLength(migrations.length);
  expect([...cloudflare.buckets]).toEqual(['latchwork-firmware', 'latchwork-firmware-staging']);
  expect(bindingOf('latchwork-staging', 'FIRMWARE')).toMatchObject({ bucket_name: 'latchwork-firmware-staging' });
  const database = cloudflare.databases.get('latchwork-staging');
  expect(bindingOf('latchwork-staging', 'DB')).toMatchObject({ id: database?.uuid });
  const [shared, own] = ['latchwork', 'latchwork-staging'].map((name) => bindingOf(name, 'LOGIN_LIMIT')?.namespace_id);
  expect(own).not.toBe(shared);
  const common = Object.values(read('secrets.env', 'latchwork-staging')).filter((secret) =>
    Object.values(secrets).includes(secret),
  );
  expect(common).toEqual([]);
});

it('goes on where it failed, with the same secrets; a domain is the address', async () => {
  const routes = 'routes = [{ pattern = "api.service.invalid", custom_domain = true }]\n';
  writeFileSync(join(dir, 'wrangler.toml'), filled.replace('[assets]', `${routes}$&`));
  cloudflare.isOutOfOrder = true;
  const failed = await deploy();
  expect(failed).toMatchObject({ code: 1, text: expect.stringContaining('run npm run deploy again') as string });
  const secrets = read('secrets.env');
  cloudflare.isOutOfOrder = false;
  expect(await deploy()).toMatchObject({ code: 0 });
  expect(read('bridge.env')).toMatchObject({ WORKER_URL: 'https://api.service.invalid' });
  expect(secretsOf('latchwork')).toEqual(secrets);
  expect([...cloudflare.databases.keys()]).toEqual(['latchwork']);
});

it('leaves secrets alone that Cloudflare alone has', async () => {
  expect(await deploy()).toMatchObject({ code: 0 });
  const secrets = secretsOf('latchwork');
  rmSync(join(dir, '.deploy'), { recursive: true });
  const elsewhere = await deploy();
  expect(elsewhere).toMatchObject({
    code: 0,
    text: expect.stringContaining('stay: Cloudflare alone has them') as string,
  });
  expect(secretsOf('latchwork')).toEqual(secrets);
  expect(existsSync(fileOf('secrets.env'))).toBe(false);
});

it('makes no secrets on a machine of CI, which forgets them, and names those that are missing', async () => {
  const ended = await deploy([], { CI: 'true', WORKERS_CI: '1' });
  expect(ended.code).toBe(1);
  expect(ended.text).toContain('JWT_SECRETS, SEALING_SECRETS, MESSAGING_SECRETS');
  // A form has set them.
  const names = ['JWT_SECRETS', 'SEALING_SECRETS', 'MESSAGING_SECRETS'];
  const bindings = names.map((name) => ({ type: 'secret_text', name, text: 'of the form' }));
  cloudflare.workers.set('latchwork', { bindings, secrets: new Map(), uploads: 0 });
  expect(await deploy([], { CI: 'true', WORKERS_CI: '1' })).toMatchObject({ code: 0 });
  expect(Object.values(secretsOf('latchwork'))).toEqual(names.map(() => 'of the form'));
  expect(existsSync(fileOf('secrets.env'))).toBe(false);
});

it('says what to do about a token that is wrong', async () => {
  const { code, text } = await deploy([], { CLOUDFLARE_API_TOKEN: 'wrong' });
  expect(code).toBe(1);
  expect(text).toContain('Run npx wrangler login, or set CLOUDFLARE_API_TOKEN');
  expect(cloudflare.databases.size + cloudflare.workers.size).toBe(0);
});

it('names the line of a setting that is wrong, before it asks anybody', async () => {
  writeFileSync(join(dir, 'wrangler.toml'), filled.replace('"staging.invalid"', '"localhost"'));
  const line = filled.split('\n').indexOf('MQTT_HOST = "staging.invalid"') + 1;
  const { code, text } = await deploy(['--env', 'staging', '--dry']);
  expect({ code, text }).toMatchObject({ code: 1 });
  expect(text).toContain(`wrangler.toml:${line}: MQTT_HOST is an address of this machine alone`);
  expect((await deploy(['--env', 'other'])).text).toContain('[env.other.vars]');
});

it('only builds, if it is asked to', async () => {
  const built = await deploy(['--dry'], { CLOUDFLARE_API_TOKEN: undefined });
  expect(built).toMatchObject({ code: 0, text: expect.stringContaining('--dry-run: exiting now') as string });
  expect(cloudflare.databases.size + cloudflare.workers.size).toBe(0);
});
