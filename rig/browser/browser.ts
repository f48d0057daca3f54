// A real Chromium without a window (Debian's, or the one that CHROMIUM names). Every page notes what must never happen in
// it: an error on its console, a refused resource, a request to another origin. Asserts nothing.
import { existsSync } from 'node:fs';
import {
  chromium,
  type Browser as Chromium,
  type BrowserContext,
  type BrowserServer,
  type Page,
  type Request,
} from 'playwright-core';
import { eventually } from '../changes.ts';

const candidates = [process.env['CHROMIUM'], '/usr/bin/chromium', '/usr/bin/google-chrome'];
const executablePath = candidates.find((path) => path !== undefined && existsSync(path));

/** Why tests with a browser are skipped; null if there is one. */
export const browserMissing =
  executablePath === undefined ? 'Chromium is not installed (Debian: apt-get install chromium)' : null;

// Chromium's sandbox does not start for root, which containers usually are.
const launching = { args: ['--no-sandbox'], ...(executablePath !== undefined && { executablePath }) };

/** A browser that several processes join. */
export function launchBrowser(): Promise<BrowserServer> {
  return chromium.launchServer(launching);
}

/** `prepare` is called before the first page is opened. */
type VisitorOptions = Parameters<Chromium['newContext']>[0] & { prepare?: (context: BrowserContext) => Promise<void> };

export class Browser {
  /** What went wrong in any page, newest last. */
  readonly problems: string[] = [];
  /** Of each page the requests that are not answered yet. */
  readonly #underWay = new Map<Page, Set<Request>>();
  readonly #chromium: Chromium;
  readonly #origin: string;

  private constructor(started: Chromium, origin: string) {
    this.#chromium = started;
    this.#origin = origin;
  }

  /** @param url of the service: no page may ask another one */
  static async start(url: string): Promise<Browser> {
    if (browserMissing !== null) throw new Error(browserMissing);
    return new Browser(await chromium.launch(launching), new URL(url).origin);
  }

  /** @param endpoint of a browser that another process has launched */
  static async join(endpoint: string, url: string): Promise<Browser> {
    return new Browser(await chromium.connect(endpoint), new URL(url).origin);
  }

  /** A page of a visitor of its own: nothing is shared with other pages. */
  async open(path = '/', { prepare, ...options }: VisitorOptions = {}): Promise<Page> {
    const context = await this.#chromium.newContext({ viewport: { width: 1100, height: 800 }, ...options });
    context.setDefaultTimeout(90_000);
    await prepare?.(context);
    return this.openIn(context, path);
  }

  /** Opens another tab of the same visitor. */
  async openIn(context: BrowserContext, path = '/'): Promise<Page> {
    const page = await context.newPage();
    page.on('console', (message) => {
      if (message.type() === 'error') this.problems.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => this.problems.push(`error: ${error.message}`));
    const underWay = new Set<Request>();
    this.#underWay.set(page, underWay);
    page.on('close', () => this.#underWay.delete(page));
    page.on('request', (request) => {
      underWay.add(request);
      this.#judge(request.url());
    });
    for (const end of ['requestfinished', 'requestfailed'] as const) {
      page.on(end as 'requestfailed', (request) => underWay.delete(request));
    }
    page.on('websocket', (socket) => this.#judge(socket.url().replace(/^ws/, 'http')));
    await page.goto(this.#origin + path);
    return page;
  }

  /** What went wrong up to the answers to all requests under way: Chromium notes a refusal when it comes. */
  async takeProblems(): Promise<string[]> {
    await eventually('no request under way', () => [...this.#underWay.values()].every(({ size }) => size === 0));
    return this.problems.splice(0);
  }

  /** Closes the pages of all visitors, and says what went wrong in them. */
  async leave(): Promise<string[]> {
    for (const context of this.#chromium.contexts()) await context.close();
    return this.problems.splice(0);
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
