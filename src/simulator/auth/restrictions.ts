/** authenticationRestrictions: from where, and to which address, a user may log in. */
import { BlockList, isIP } from 'node:net';
import type { Document } from 'bson';
import { ServerError } from '../contracts.ts';
import { isDocument } from '../wire/bson.ts';

const FIELDS = ['clientSource', 'serverAddress'] as const;

/** Checks given restrictions: 9 for a bad address range, 40415 for an unknown field. */
export function assertRestrictions(value: unknown): readonly Document[] {
  if (!Array.isArray(value))
    throw new ServerError(14, 'TypeMismatch', "'authenticationRestrictions' must be an array");
  for (const restriction of value as unknown[]) {
    if (!isDocument(restriction))
      throw new ServerError(12, 'UnsupportedFormat', 'restriction must be an object');
    for (const [field, ranges] of Object.entries(restriction)) {
      if (!(FIELDS as readonly string[]).includes(field)) {
        throw new ServerError(
          12,
          'UnsupportedFormat',
          `unrecognized field "${field}" in authenticationRestrictions`,
        );
      }
      for (const range of [ranges].flat()) {
        if (listOf([String(range)]) === undefined)
          throw new ServerError(9, 'FailedToParse', `Invalid IP address in CIDR string: ${range}`);
      }
    }
  }
  return value as Document[];
}

/** True when one restriction of every list is met. */
export function meetsRestrictions(
  lists: readonly (readonly Document[])[],
  client: string,
  server: string,
): boolean {
  return lists.every((list) => list.some((restriction) => meets(restriction, client, server)));
}

function meets(restriction: Document, client: string, server: string): boolean {
  return within(restriction['clientSource'], client) && within(restriction['serverAddress'], server);
}

function within(ranges: unknown, address: string): boolean {
  if (ranges === undefined) return true;
  const version = isIP(address);
  if (version === 0) return false;
  const list = listOf([ranges].flat().map(String));
  return list?.check(address, version === 6 ? 'ipv6' : 'ipv4') === true;
}

function listOf(ranges: readonly string[]): BlockList | undefined {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    const version = isIP(address);
    const prefix = bits === undefined ? (version === 6 ? 128 : 32) : Number(bits);
    if (version === 0 || !Number.isInteger(prefix) || prefix < 0 || prefix > (version === 6 ? 128 : 32))
      return undefined;
    list.addSubnet(address, prefix, version === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}
