// Debian's nginx and Caddy in front of a server, with the examples that operators are given: only names, ports and files are others.
// Asserts nothing.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Certificates } from '../certificates.ts';
import { findFreePort, untilListening } from '../ports.ts';
import { makeTempDir } from '../temp-dirs.ts';

const binaries = { nginx: '/usr/sbin/nginx', caddy: '/usr/bin/caddy' } as const;
export type ProxyName = keyof typeof binaries;

/** Why tests with it are skipped here, or null if it is installed. */
export const proxyMissing = (name: ProxyName): string | null => {
  if (existsSync(binaries[name])) return null;
  return `${name} is not installed (apt-get install ${name === 'nginx' ? 'nginx-light' : name})`;
};

const exampleOf = (name: string) => readFileSync(new URL(`../../serve/examples/${name}`, import.meta.url), 'utf8');

export class ReverseProxy {
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(port: number, child: ChildProcess) {
    this.port = port;
    this.#child = child;
  }

  /** @param host the name in its certificate */
  static async start(name: ProxyName, apiPort: string, host: string, files: Certificates): Promise<ReverseProxy> {
    const [port, dir] = [await findFreePort(), makeTempDir(name)];
    const change = (text: string) =>
      text.replaceAll('latchwork.example.com', host).replace('127.0.0.1:8787', `127.0.0.1:${apiPort}`);
    const path = join(dir, 'settings');
    writeFileSync(path, name === 'nginx' ? nginxSettings() : caddySettings());
    const args =
      name === 'nginx'
        ? ['-p', dir, '-c', path, '-g', `daemon off; pid ${dir}/pid; error_log stderr;`]
        : ['run', '--adapter', 'caddyfile', '--config', path];
    const env = { ...process.env, HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir };
    const child = spawn(binaries[name], args, { stdio: ['ignore', 'ignore', 'pipe'], env });
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
    const isUp = await Promise.race([untilListening(port).then(() => true), once(child, 'exit').then(() => false)]);
    if (!isUp) throw new Error(`${name} did not start: ${said}`);
    return new ReverseProxy(port, child);

    function nginxSettings(): string {
      const site = exampleOf('nginx.conf')
        .replace('listen 443', `listen ${port}`)
        .replace(/(ssl_certificate) .*;/, `$1 ${files.serverCert};`)
        .replace(/(ssl_certificate_key) .*;/, `$1 ${files.serverKey};`);
      for (const folder of ['body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']) mkdirSync(join(dir, folder));
      const paths = [
        'client_body_temp_path body',
        ...['proxy', 'fastcgi', 'uwsgi', 'scgi'].map((use) => `${use}_temp_path ${use}`),
      ];
      return `user root;\nevents {}\nhttp {\naccess_log off;\n${paths.join(';\n')};\n${change(site)}}\n`;
    }

    function caddySettings(): string {
      const site = change(exampleOf('Caddyfile')).replace(
        `${host} {`,
        `https://${host}:${port} {\n\ttls ${files.serverCert} ${files.serverKey}`,
      );
      return `{\n\tadmin off\n\tauto_https off\n}\n${site}`;
    }
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await ended;
  }
}
