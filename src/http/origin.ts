/** The host of a URL as sockets want it: IPv6 without brackets. */
export function hostOf({ hostname }: URL): string {
  return hostname.replaceAll(/^\[|\]$/g, '');
}

/** The port of an http or https URL, also where it is the usual one. */
export function portOf({ protocol, port }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}
