/**
 * Annotations of stored objects. Those below `belay.dev/` are the server's own: a document of a person neither sets nor
 * wipes them. All others are as the document has them.
 */
import type { StoredObject } from '../engine/ports.ts';
import { type BelayObject, KEPT_FIELDS_ANNOTATION, ORIGIN_ANNOTATION, type Warning } from '../model/index.ts';
import { KEPT_ANNOTATION, WARNINGS_ANNOTATION } from '../provider/names.ts';

const OWN_PREFIX = 'belay.dev/';

/** Made by the conversion of foreign documents; accepted in documents too, so that an exported object can come back. */
const CONVERTED: ReadonlySet<string> = new Set([ORIGIN_ANNOTATION, KEPT_FIELDS_ANNOTATION]);
/** Computed anew at every apply: what is not true any more must not stay. */
const COMPUTED: ReadonlySet<string> = new Set([WARNINGS_ANNOTATION, KEPT_ANNOTATION]);

type Annotations = Readonly<Record<string, string>>;

/** The annotations to store, with the warnings that stay true, and all warnings with one more for each annotation that was left out. */
export function annotationsOf(
  object: BelayObject,
  found: readonly Warning[],
  current: StoredObject | null,
): { readonly annotations: Annotations; readonly warnings: readonly Warning[] } {
  const given = Object.entries(object.metadata.annotations);
  const stored = Object.entries(current?.metadata.annotations ?? {});
  const before = Object.fromEntries(stored);
  const left = given.filter(([name, value]) => isOurs(name) && !COMPUTED.has(name) && before[name] !== value);
  const kept = [
    ...found.filter((warning) => warning.once !== true),
    ...left.map(([name]) => ({
      path: `metadata.annotations.${name}`,
      message: `was left out: annotations below ${OWN_PREFIX} are written by Belay`,
    })),
  ];
  const suspended = (object.spec as { readonly suspend?: unknown }).suspend === true;
  return {
    warnings: [
      ...found.filter((warning) => warning.once === true).map(({ path, message }) => ({ path, message })),
      ...kept,
    ],
    annotations: Object.fromEntries([
      ...stored.filter(([name]) => name.startsWith(OWN_PREFIX) && !COMPUTED.has(name)),
      ...given.filter(([name]) => !isOurs(name)),
      ...stored.filter(([name]) => name === KEPT_ANNOTATION && suspended),
      ...(kept.length === 0 ? [] : [[WARNINGS_ANNOTATION, JSON.stringify(kept.map(sentence))]]),
    ]) as Annotations,
  };
}

const isOurs = (name: string): boolean => name.startsWith(OWN_PREFIX) && !CONVERTED.has(name);
const sentence = (warning: Warning): string => `${warning.path}: ${warning.message}`;
