import type { Problem } from '../../base/error.ts';
import { err, ok, type Result } from '../../base/result.ts';
import { Secret } from '../../base/secret.ts';
import { DEFAULT_NAMESPACE } from '../meta.ts';
import { isDnsName } from '../network.ts';
import { isMap, type Loose, mapAt, textAt } from '../paths.ts';

/** A Kubernetes Secret document: its values go into the sealed store and nowhere else (S8). */
export interface SecretDocument {
  readonly namespace: string;
  readonly name: string;
  readonly values: Readonly<Record<string, Secret<string>>>;
}

/** Longest value of a secret, in characters. */
export const MAX_SECRET_LENGTH = 64 * 1024;

/** Reads a `v1` Secret (`stringData` as it is, `data` in base64 holding UTF-8). Messages never repeat values. */
export function readSecretDocument(document: Loose): Result<SecretDocument, readonly Problem[]> {
  const problems: Problem[] = [];
  const name = textAt(document, 'metadata', 'name') ?? '';
  if (!isDnsName(name)) problems.push({ path: 'metadata.name', message: 'must be a DNS name' });
  const values: [string, Secret<string>][] = [];
  for (const [field, decode] of [['data', fromBase64] as const, ['stringData', asIs] as const]) {
    for (const [key, value] of Object.entries(mapAt(document, field))) {
      const path = `${field}.${key}`;
      const text = typeof value === 'string' ? decode(value) : undefined;
      if (text === undefined) {
        const wanted = field === 'data' ? 'must be base64 of UTF-8 text' : 'must be a quoted string';
        problems.push({ path, message: wanted });
      } else if (text.length > MAX_SECRET_LENGTH) {
        problems.push({ path, message: `is longer than ${MAX_SECRET_LENGTH} characters` });
      } else values.push([key, new Secret(text)]);
    }
  }
  if (problems.length > 0) return err(problems);
  const namespace = textAt(document, 'metadata', 'namespace') ?? DEFAULT_NAMESPACE;
  return ok({ namespace, name, values: Object.fromEntries(values) });
}

/** Why a document of Kubernetes itself is passed over, or undefined when it is not one. */
export function passedOver(document: Loose): string | undefined {
  const apiVersion = textAt(document, 'apiVersion') ?? '';
  const core =
    apiVersion === 'v1' ||
    /^(apps|rbac\.authorization\.k8s\.io|batch|networking\.k8s\.io)\/v1$/.test(apiVersion);
  if (!core || !isMap(document)) return undefined;
  return `${textAt(document, 'kind') ?? 'this kind'} of Kubernetes has no meaning here and was passed over`;
}

const asIs = (text: string): string => text;

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

// Written out, since this room knows neither Buffer nor atob.
function fromBase64(text: string): string | undefined {
  const compact = text.replace(/\s+/g, '');
  if (compact.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(compact)) return undefined;
  let bits = 0;
  let held = 0;
  let encoded = '';
  for (const character of compact.replace(/=+$/, '')) {
    held = (held << 6) | ALPHABET.indexOf(character);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    encoded += `%${((held >> bits) & 0xff).toString(16).padStart(2, '0')}`;
    held &= (1 << bits) - 1;
  }
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}
