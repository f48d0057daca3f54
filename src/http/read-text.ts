// Reads a request body of limited size, however it is transferred. For the machines' routes; the interface's own bodies
// go through request-body.ts.

/** The body as text; undefined where it is larger, which is noticed before it was read to its end. */
export async function readText(request: Request, maxBytes: number): Promise<string | undefined> {
  const announced = request.headers.get('Content-Length');
  // Not text(), which warns of every type that is not text, forms among them.
  if (announced !== null) {
    return Number(announced) > maxBytes ? undefined : new TextDecoder().decode(await request.arrayBuffer());
  }
  if (request.body === null) return '';
  const decoder = new TextDecoder();
  let text = '';
  let size = 0;
  for await (const chunk of request.body as ReadableStream<Uint8Array>) {
    size += chunk.byteLength;
    if (size > maxBytes) return undefined;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
