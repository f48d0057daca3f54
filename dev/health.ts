// Whether the service is whole, asked as anybody may. All other calls go through src/client.ts.

/** undefined when every part is connected, else what is missing in the service's words. */
export async function askHealth(apiUrl: string): Promise<string | undefined> {
  try {
    const response = await fetch(`${apiUrl}/health`, { signal: AbortSignal.timeout(2_000) });
    const answer = (await response.json()) as { message?: string };
    return response.ok ? undefined : (answer.message ?? `health answers ${response.status}`);
  } catch {
    return 'the API does not answer';
  }
}
