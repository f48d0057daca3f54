// The address of a deployment as people give it on the command line. Checks its form; asks nobody.

/** Without the slash at the end, and without /api/v1, which the commands add. @throws Error naming the option */
export function readBaseAddress(option: string, text: string | undefined): string {
  const example = 'e.g. http://127.0.0.1:8787';
  if (text === undefined) throw new Error(`${option} needs the address of the service, ${example}`);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new Error(`${option} is "${text}": give the address of the service, ${example}`);
  }
  const path = url.pathname.replace(/\/+$/, '').replace(/\/api(\/v1)?$/, '');
  return `${url.origin}${path}`;
}
