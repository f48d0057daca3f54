// A real Chromium without a window (Debian's, or the one that CHROMIUM names). Every page notes what must never happen in
// it: an error on its console, a refused resource, a request to another origin. Asserts nothing.
import { existsSync } from 'node:fs';
import { chromium, type Browser as Chromium, type BrowserContext, type Page } from 'playwright-core';

const candidates = [process.env['CHROMIUM'], '/usr/bin/chromium', '/usr/bin/google-chrome'];
const executablePath = candidates.find((path) => path !== undefined && existsSync(path));

/** Why tests with a browser are skipped; null where there is one. */
export const browserMissing =
  executablePath === undefined ? 'Chromium is not installed (Debian: apt-get install chromium)' : null;

export class Browser {
  /** What went wrong in any page, newest last. */
  readonly problems: string[] = [];
  readonly #chromium: Chromium;
  readonly #origin: string;

  private constructor(started: Chromium, origin: string) {
    this.#chromium = started;
    this.#origin = origin;
  }

  /** @param url of the service: no page may ask another one */
  static async start(url: string, args: string[] = []): Promise<Browser> {
    if (executablePath === undefined) throw new Error(browserMissing ?? '');
    // Chromium's sandbox does not start for root, which containers usually are.
    const started = await chromium.launch({ executablePath, args: ['--no-sandbox', ...args] });
    return new Browser(started, new URL(url).origin);
  }

  /** A page of a visitor of its own: nothing is shared with other pages. */
  async open(path = '/', options: Parameters<Chromium['newContext']>[0] = {}): Promise<Page> {
    const context = await this.#chromium.newContext({ viewport: { width: 1100, height: 800 }, ...options });
    return this.openIn(context, path);
  }

  /** Another tab of the same visitor. */
  async openIn(context: BrowserContext, path = '/'): Promise<Page> {
    const page = await context.newPage();
    page.on('console', (message) => {
      if (message.type() === 'error') this.problems.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => this.problems.push(`error: ${error.message}`));
    page.on('request', (request) => this.#judge(request.url()));
    page.on('websocket', (socket) => this.#judge(socket.url().replace(/^ws/, 'http')));
    await page.goto(this.#origin + path);
    return page;
  }

  async stop(): Promise<void> {
    await this.#chromium.close();
  }

  #judge(url: string): void {
    const { origin, protocol } = new URL(url);
    if (origin !== this.#origin && protocol !== 'data:' && protocol !== 'blob:') {
      this.problems.push(`request to another origin: ${url}`);
    }
  }
}
