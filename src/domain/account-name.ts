// When two usernames or emails count as the same (decision: accounts).

/** The form in which names are compared and unique; what the user wrote is stored beside it. */
export function foldName(name: string): string {
  return name.trim().normalize('NFKC').toLowerCase();
}
