// The certificate of the TLS listener: read from its files, and read again when their contents change. Files that do not
// fit together are logged, and the certificate before them stays in use.
import { constants, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, type SecureContext } from 'node:tls';
import { describeError, type Log } from '../../node-service/log.ts';

export type CertificateFiles = { certFile: string; keyFile: string };
type Certificate = { context: SecureContext; expiresAtMs: number; contents: string };

const lookEveryMs = 1_000;

/** @throws Error that names the setting to look at */
export function readCertificate(files: CertificateFiles): Certificate {
  const cert = readPem('TLS_CERT_FILE', files.certFile);
  const key = readPem('TLS_KEY_FILE', files.keyFile);
  try {
    const { validTo } = new X509Certificate(cert);
    // A bare TLSSocket limits no renegotiation: a client could ask for one handshake after the other.
    const context = createSecureContext({ cert, key, secureOptions: constants.SSL_OP_NO_RENEGOTIATION });
    return { context, expiresAtMs: Date.parse(validTo), contents: cert + key };
  } catch (error) {
    throw new Error(`TLS_CERT_FILE and TLS_KEY_FILE cannot be used together: ${describeError(error)}`, {
      cause: error,
    });
  }
}

export class CurrentCertificate {
  readonly #files: CertificateFiles;
  readonly #log: Log;
  /** For new connections; open connections keep theirs. */
  current: Certificate;
  #lastProblem: string | undefined;
  #timer: NodeJS.Timeout;

  /** @throws Error as `readCertificate` */
  constructor(files: CertificateFiles, log: Log) {
    this.#files = files;
    this.#log = log;
    this.current = readCertificate(files);
    // By contents, because tools replace links or rename files into place: a watch on the files would miss that.
    this.#timer = setInterval(() => this.#look(), lookEveryMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    try {
      const { certFile, keyFile } = this.#files;
      if (readFileSync(certFile, 'utf8') + readFileSync(keyFile, 'utf8') === this.current.contents) return;
      this.current = readCertificate(this.#files);
      this.#lastProblem = undefined;
      this.#log.info('new certificate in use', { expiresAt: new Date(this.current.expiresAtMs).toISOString() });
    } catch (error) {
      const problem = describeError(error);
      // Between the two files of a renewal they do not fit together for a moment.
      if (problem === this.#lastProblem) return;
      this.#lastProblem = problem;
      this.#log.error('the certificate files cannot be used, the certificate before them stays in use', {
        alarm: true,
        cause: problem,
      });
    }
  }
}

function readPem(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new Error(`${name} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}): ${path}`, {
      cause: error,
    });
  }
}
