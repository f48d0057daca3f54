// Certificates of an authority made for one test, by openssl, and a server that speaks TLS in front of another one.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { makeTempDir } from './temp-dirs.ts';

/** Paths of PEM files. */
export type Certificates = Record<'ca' | 'serverCert' | 'serverKey' | 'clientCert' | 'clientKey', string>;

export function makeCertificates(serverName: string): Certificates {
  const dir = makeTempDir('tls');
  const path = (name: string): string => join(dir, name);
  const openssl = (command: string): void => {
    execFileSync('openssl', command.split(' '), { cwd: dir, stdio: 'ignore' });
  };
  const newKey = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes';
  openssl(`req -x509 ${newKey} -keyout ca.key -out ca.pem -subj /CN=test-authority -days 2`);
  for (const [name, subject] of Object.entries({ server: serverName, client: 'bridge' })) {
    writeFileSync(path(`${name}.ext`), `subjectAltName=DNS:${subject}\n`);
    openssl(`req ${newKey} -keyout ${name}.key -out ${name}.csr -subj /CN=${subject}`);
    const signing = `-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ${name}.ext`;
    openssl(`x509 -req -in ${name}.csr -out ${name}.pem ${signing}`);
  }
  return {
    ca: path('ca.pem'),
    serverCert: path('server.pem'),
    serverKey: path('server.key'),
    clientCert: path('client.pem'),
    clientKey: path('client.key'),
  };
}

/** Passes what it decrypts to a port of this machine; ends with the process if it is not closed. */
export async function startTlsFront(targetPort: number, { serverCert, serverKey }: Certificates): Promise<Server> {
  const server = createServer({ cert: readFileSync(serverCert), key: readFileSync(serverKey) }, (near) => {
    const far = connect(targetPort, '127.0.0.1');
    near.on('error', () => far.destroy());
    far.on('error', () => near.destroy());
    near.pipe(far).pipe(near);
  });
  // A client that does not trust the certificate hangs up.
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1').unref();
  await once(server, 'listening');
  return server;
}

export function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}
