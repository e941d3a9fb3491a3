/** What the definitions of verbs are made of. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Context } from './context.ts';

/** Options of a verb with those given before it. */
export type Options = Readonly<Record<string, unknown>>;
/** What a verb does: its context, its options, its words. */
export type Action = (context: Context, options: Options, words: readonly string[]) => Promise<void> | void;
/** Adds a verb below another with all common options. */
export type MakeVerb = (parent: Command, spec: string, description: string, action: Action) => Command;

/** `90`, `90s`, `2m`, `1h`, `500ms` as milliseconds. */
export function parseTimeout(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text);
  if (match === null) throw new InvalidArgumentError('Write a duration such as 90s, 2m or 1h.');
  const unit = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }[match[2] ?? 's'] ?? 1000;
  const millis = Number(match[1]) * unit;
  // Timers of the platform take no more; nobody waits for longer.
  if (millis > 2 ** 31 - 1) throw new InvalidArgumentError('At most 24 days.');
  return millis;
}

export function parseCount(text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text) && Number(text) <= 1000) return Number(text);
  throw new InvalidArgumentError('Write a whole number from 1 to 1000.');
}

/** How urgent something is beside other maintenance. */
export function parsePriority(value: string): number {
  if (/^-?\d{1,3}$/.test(value) && Math.abs(Number(value)) <= 100) return Number(value);
  throw new InvalidArgumentError('Write a whole number from -100 (most urgent) to 100.');
}

/** An option that takes a duration, with a default that help shows as people write it. */
export const timeOption = (flags: string, description: string, byDefault: string): Option =>
  new Option(flags, description).argParser(parseTimeout).default(parseTimeout(byDefault), byDefault);

/** For options that may be given several times. */
export const collect = (value: string, previous: string[]): string[] => [...previous, value];

/** Adds examples to a verb's help. */
export const examples = (command: Command, ...lines: readonly string[]): Command =>
  command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`);

export const text = (options: Options, name: string): string | undefined =>
  options[name] as string | undefined;
export const flag = (options: Options, name: string): boolean => options[name] === true;
