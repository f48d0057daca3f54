// The certificate of the TLS listener: read from its files, and read again when their contents change. Files that do not
// fit together are logged, and the certificate before them stays in use.
import { constants, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, type SecureContext } from 'node:tls';
import { describeError, type Log } from '../../node-service/log.ts';

export type CertificateFiles = { certFile: string; keyFile: string };
type Pem = { cert: string; key: string };
type Certificate = { context: SecureContext; expiresAtMs: number; pem: Pem };

const lookEveryMs = 1_000;

/** @throws Error that names the setting to look at */
export function readCertificate({ certFile, keyFile }: CertificateFiles): Certificate {
  try {
    const [cert, key] = [readFileSync(certFile, 'utf8'), readFileSync(keyFile, 'utf8')];
    const { validTo } = new X509Certificate(cert);
    // A bare TLSSocket limits no renegotiation: a client could ask for one handshake after the other.
    const context = createSecureContext({ cert, key, secureOptions: constants.SSL_OP_NO_RENEGOTIATION });
    return { context, expiresAtMs: Date.parse(validTo), pem: { cert, key } };
  } catch (error) {
    throw new Error(`TLS_CERT_FILE and TLS_KEY_FILE cannot be used together: ${describeError(error)}`, {
      cause: error,
    });
  }
}

/** `current`: for new connections; open connections keep theirs. `onNew` is told later ones. @throws Error as `readCertificate` */
export function watchCertificate(files: CertificateFiles, log: Log, onNew?: (pem: Pem) => void) {
  const watched = { current: readCertificate(files), stop: () => clearInterval(timer) };
  let lastProblem: string | undefined;
  const look = (): void => {
    try {
      const contents = readFileSync(files.certFile, 'utf8') + readFileSync(files.keyFile, 'utf8');
      const { cert, key } = watched.current.pem;
      if (contents === cert + key) return;
      watched.current = readCertificate(files);
      onNew?.(watched.current.pem);
      lastProblem = undefined;
      log.info('new certificate in use', { expiresAt: new Date(watched.current.expiresAtMs).toISOString() });
    } catch (error) {
      const problem = describeError(error);
      // Between the two files of a renewal they do not fit together for a moment.
      if (problem === lastProblem) return;
      lastProblem = problem;
      log.error('the certificate files cannot be used, the certificate before them stays in use', {
        alarm: true,
        cause: problem,
      });
    }
  };
  // By contents, because tools replace links or rename files into place: a watch on the files would miss that.
  const timer = setInterval(look, lookEveryMs).unref();
  return watched;
}
