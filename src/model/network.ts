/** Longest DNS label; member host names and Kubernetes Services are labels. */
export const MAX_LABEL_LENGTH = 63;
/** Longest DNS name (RFC 1123) and so the longest object name. */
export const MAX_NAME_LENGTH = 253;

/** Whether the text is one DNS label of lower-case letters, digits and dashes (RFC 1123). */
export function isDnsLabel(text: string): boolean {
  return text.length <= MAX_LABEL_LENGTH && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(text);
}

/** Whether the text is a DNS name: labels joined by dots, at most 253 characters (RFC 1123). */
export function isDnsName(text: string): boolean {
  return text.length > 0 && text.length <= MAX_NAME_LENGTH && text.split('.').every(isDnsLabel);
}

/** Whether the text is an IPv4 address in dotted form. */
export function isIpv4(text: string): boolean {
  const parts = text.split('.');
  return parts.length === 4 && parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255);
}

/** Whether the text is an IPv6 address, with or without brackets; zones are not accepted. */
export function isIpv6(text: string): boolean {
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (!bare.includes(':')) return false;
  const halves = bare.split('::');
  if (halves.length > 2) return false;
  const groups = halves.flatMap((half) => (half === '' ? [] : half.split(':')));
  const last = groups.at(-1);
  const v4Tail = last?.includes('.') === true;
  if (v4Tail && !isIpv4(last)) return false;
  const plain = v4Tail ? groups.slice(0, -1) : groups;
  if (!plain.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return false;
  const count = plain.length + (v4Tail ? 2 : 0);
  return halves.length === 2 ? count < 8 : count === 8;
}

/** Whether the text is an IP address literal of either family. */
export const isIpLiteral = (text: string): boolean => isIpv4(text) || isIpv6(text);

/** Whether the text is an address range such as 10.0.0.0/8 or 2001:db8::/32. */
export function isCidr(text: string): boolean {
  const [address = '', prefix = '', ...rest] = text.split('/');
  if (rest.length > 0 || !/^\d{1,3}$/.test(prefix) || address.startsWith('[')) return false;
  if (isIpv4(address)) return Number(prefix) <= 32;
  return isIpv6(address) && Number(prefix) <= 128;
}

/** Whether the range is everybody. */
export const isWholeInternet = (cidr: string): boolean => /\/0+$/.test(cidr);

const LOOPBACK = new Set(['localhost', '127.0.0.1', '::1', '[::1]']);

/** Whether the name only leads back to the same machine. */
export const isLoopback = (host: string): boolean => LOOPBACK.has(host.toLowerCase());

/**
 * What is wrong with a name under which members are advertised to each other and to clients, or nothing.
 * IP addresses change under a member and leave it out of its own set configuration, so only names are
 * accepted; loopback is for a single machine and therefore allowed.
 */
export function advertisedHostProblem(host: string): string | undefined {
  if (isLoopback(host)) return undefined;
  if (isIpLiteral(host)) {
    return 'is an IP address; members are advertised by name, since an address can change: give a DNS name';
  }
  if (!isDnsName(host.toLowerCase())) {
    return 'must be a DNS name of letters, digits, dashes and dots, such as "db1.example.com"';
  }
  return undefined;
}
