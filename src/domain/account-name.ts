// When two usernames or emails are the same one (decisions, Accounts: compared without case).

/** The form in which names are compared and unique; what the user wrote is kept beside it. */
export function foldName(name: string): string {
  return name.trim().normalize('NFKC').toLowerCase();
}
