/** Subject names of certificates as the server writes them: RFC 2253, most specific attribute first. */

/** One attribute of a name: type (`CN`, `O`, … or a dotted id) and value. */
export interface NameAttribute {
  readonly type: string;
  readonly value: string;
}

const TYPES: Readonly<Record<string, string>> = {
  '2.5.4.3': 'CN',
  '2.5.4.4': 'SN',
  '2.5.4.5': 'serialNumber',
  '2.5.4.6': 'C',
  '2.5.4.7': 'L',
  '2.5.4.8': 'ST',
  '2.5.4.9': 'street',
  '2.5.4.10': 'O',
  '2.5.4.11': 'OU',
  '2.5.4.12': 'title',
  '2.5.4.42': 'GN',
  '0.9.2342.19200300.100.1.1': 'UID',
  '0.9.2342.19200300.100.1.25': 'DC',
  '1.2.840.113549.1.9.1': 'emailAddress',
};

interface Item {
  readonly tag: number;
  readonly bytes: Uint8Array;
  readonly next: number;
}

/** Reads one DER item. Certificates come from the TLS library, so their structure is sound. */
function item(bytes: Uint8Array, at: number): Item {
  const tag = bytes[at]!;
  let length = bytes[at + 1]!;
  let start = at + 2;
  if (length > 0x80) {
    const count = length & 0x7f;
    length = 0;
    for (let i = 0; i < count; i++) length = length * 256 + bytes[start + i]!;
    start += count;
  }
  return { tag, bytes: bytes.subarray(start, start + length), next: start + length };
}

function* items(bytes: Uint8Array): Generator<Item> {
  for (let at = 0; at < bytes.length; ) {
    const one = item(bytes, at);
    yield one;
    at = one.next;
  }
}

const CONTEXT_0 = 0xa0;

/** The subject's attributes in the order they stand in the certificate; several of one level keep their order. */
export function subjectAttributes(certificate: Uint8Array): readonly (readonly NameAttribute[])[] {
  const fields = [...items(item(item(certificate, 0).bytes, 0).bytes)];
  const versioned = fields[0]?.tag === CONTEXT_0 ? 1 : 0;
  const subject = fields[versioned + 4];
  if (subject === undefined) return [];
  return [...items(subject.bytes)].map((set) => [...items(set.bytes)].map(attribute));
}

function attribute(sequence: Item): NameAttribute {
  const [type, value] = [...items(sequence.bytes)];
  const id = objectId(type?.bytes ?? new Uint8Array());
  return { type: TYPES[id] ?? id, value: value === undefined ? '' : text(value) };
}

function objectId(bytes: Uint8Array): string {
  const parts = [Math.min(2, Math.floor((bytes[0] ?? 0) / 40))];
  parts.push((bytes[0] ?? 0) - parts[0]! * 40);
  let value = 0;
  for (const byte of bytes.subarray(1)) {
    value = value * 128 + (byte & 0x7f);
    if ((byte & 0x80) === 0) {
      parts.push(value);
      value = 0;
    }
  }
  return parts.join('.');
}

const BMP_STRING = 0x1e;
const UTF8_STRING = 0x0c;

function text(value: Item): string {
  const bytes = Buffer.from(value.bytes);
  if (value.tag === UTF8_STRING) return bytes.toString('utf8');
  if (value.tag !== BMP_STRING) return bytes.toString('latin1');
  return Buffer.from(bytes).swap16().toString('utf16le');
}

/** RFC 2253 text of a certificate's subject, `CN=a,OU=b,O=c`. */
export function subjectOf(certificate: Uint8Array): string {
  const levels = subjectAttributes(certificate).map((set) =>
    set.map(({ type, value }) => `${type}=${escapeValue(value)}`).join('+'),
  );
  return levels.toReversed().join(',');
}

function escapeValue(value: string): string {
  return value
    .replace(/[,+"\\<>;]/g, (character) => `\\${character}`)
    .replace(/^[# ]/, (character) => `\\${character}`)
    .replace(/ $/, '\\ ');
}

/** Reads an RFC 2253 text back into attributes, for settings and user names. Undefined when it is no such name. */
export function parseSubject(name: string): readonly NameAttribute[] | undefined {
  const parts = splitUnescaped(name);
  const attributes: NameAttribute[] = [];
  for (const part of parts) {
    const equals = part.indexOf('=');
    if (equals < 1) return undefined;
    const value = part
      .slice(equals + 1)
      .trim()
      .replace(/\\(.)/g, '$1');
    attributes.push({ type: part.slice(0, equals).trim(), value });
  }
  return attributes;
}

function splitUnescaped(name: string): string[] {
  const parts: string[] = [''];
  for (let i = 0; i < name.length; i++) {
    const character = name[i]!;
    if (character === '\\') {
      parts[parts.length - 1] += character + (name[i + 1] ?? '');
      i += 1;
    } else if (character === ',' || character === '+') parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts;
}

/** How members are told from users by their certificates. */
export interface MemberRule {
  /** Subject of the server's own certificate. */
  readonly own: string | undefined;
  /** Another accepted subject, for changes of the naming scheme (tlsX509ClusterAuthDNOverride). */
  readonly override?: string | undefined;
  /** Attributes a member's subject must have, instead of those of the own one (clusterAuthX509.attributes). */
  readonly attributes?: string | undefined;
}

/** True when a subject is that of a member under the rule. */
export function isMember(subject: string, { own, override, attributes }: MemberRule): boolean {
  if (override !== undefined && override !== '' && isMemberSubject(subject, override)) return true;
  if (attributes === undefined || attributes === '')
    return own !== undefined && isMemberSubject(subject, own);
  const present = parseSubject(subject) ?? [];
  const wanted = parseSubject(attributes) ?? [];
  return (
    wanted.length > 0 &&
    wanted.every(({ type, value }) => present.some((other) => other.type === type && other.value === value))
  );
}

const MEMBER_TYPES = ['O', 'OU', 'DC'];

/**
 * True when a subject is that of a member of this cluster: its O, OU and DC attributes equal those of the server's own
 * certificate, in any order, and there is at least one (4.2).
 */
export function isMemberSubject(subject: string, own: string): boolean {
  const wanted = memberAttributes(own);
  return wanted.length > 0 && wanted.join('\n') === memberAttributes(subject).join('\n');
}

function memberAttributes(subject: string): string[] {
  const attributes = parseSubject(subject) ?? [];
  return attributes
    .filter(({ type }) => MEMBER_TYPES.includes(type))
    .map(({ type, value }) => `${type}=${value}`)
    .sort();
}
