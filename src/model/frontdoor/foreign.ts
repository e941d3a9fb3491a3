import type { Problem } from '../../base/error.ts';
import { formatPath, type Loose } from '../paths.ts';

/** What a field of a foreign document became. */
export interface ReportEntry {
  /** Path in the foreign document. */
  readonly path: string;
  /** ignored: no meaning here · mapped: means something else here · kept: unknown, carried along. */
  readonly kind: 'ignored' | 'mapped' | 'kept';
  readonly message: string;
}

/** A foreign document on its way into this language. */
export interface Foreign {
  /** The document as belay.dev/v1, as far as it could be converted; it is still to be validated. */
  readonly document?: Loose;
  /** Problems found with the foreign document itself, with its own paths. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  readonly report: readonly ReportEntry[];
  /** The path in the foreign document that a path of the converted one came from. */
  readonly origin: (path: string) => string;
}

/** Annotation that says which API version a converted object was given in. */
export const ORIGIN_ANNOTATION = 'belay.dev/origin';
/** Annotation with the fields of the foreign spec that have no counterpart, as JSON: kept, never dropped (B1.3). */
export const KEPT_FIELDS_ANNOTATION = 'belay.dev/kept-fields';

/** Collects a converted spec and remembers where each part came from. */
export class Conversion {
  readonly problems: Problem[] = [];
  readonly warnings: Problem[] = [];
  readonly report: ReportEntry[] = [];
  readonly spec: Record<string, unknown> = {};
  readonly kept: Record<string, unknown> = {};
  readonly #origins = new Map<string, string>();

  /** Puts a value into the new spec; undefined puts nothing. Paths are without `spec.`. */
  set(to: string, value: unknown, from: string = to): void {
    if (value === undefined) return;
    const parts = to.split('.');
    let at = this.spec;
    for (const part of parts.slice(0, -1)) {
      const next = (at[part] ?? {}) as Record<string, unknown>;
      at[part] = next;
      at = next;
    }
    at[parts.at(-1) ?? to] = value;
    this.#origins.set(`spec.${to}`, from === '' ? 'spec' : `spec.${from}`);
  }

  problem(path: string, message: string): void {
    this.problems.push({ path: `spec.${path}`, message });
  }

  mapped(path: string, message: string): void {
    this.report.push({ path: `spec.${path}`, kind: 'mapped', message });
  }

  /** Reports a field that means nothing here and keeps its value. */
  ignored(path: string, value: unknown, message: string): void {
    if (value === undefined) return;
    this.report.push({ path: `spec.${path}`, kind: 'ignored', message });
    this.kept[path] = value;
  }

  /** Reports an unknown field and keeps its value. */
  unknown(path: readonly PropertyKey[], value: unknown, message: string): void {
    const text = formatPath(path);
    this.report.push({ path: `spec.${text}`, kind: 'kept', message });
    this.kept[text] = value;
  }

  /** Where a part of the converted document came from: the longest known beginning decides. */
  origin(path: string): string {
    for (let end = path.length; end > 0; end = cut(path, end)) {
      const from = this.#origins.get(path.slice(0, end));
      if (from !== undefined) return from + path.slice(end);
    }
    return path;
  }
}

const cut = (path: string, end: number): number =>
  Math.max(path.lastIndexOf('.', end - 1), path.lastIndexOf('[', end - 1));
