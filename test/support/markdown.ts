/** What tests need of the documentation: its console blocks, its YAML, its links and the commands it names. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Command, Option } from 'commander';

/** One line with a prompt, and what the page shows below it. */
export interface ShownCommand {
  readonly line: number;
  readonly text: string;
  /** `# exit 10` behind a command; `any` when it depends on the machine. */
  readonly exit: number | 'any';
  readonly output: readonly string[];
}

interface Block {
  readonly language: string;
  readonly line: number;
  readonly lines: readonly string[];
}

/** Fenced blocks with their first line's number. */
export function blocksOf(markdown: string): readonly Block[] {
  const blocks: Block[] = [];
  let open: { language: string; line: number; lines: string[] } | null = null;
  for (const [index, line] of markdown.split('\n').entries()) {
    const fence = /^```(\S*)/.exec(line);
    if (fence === null) open?.lines.push(line);
    else if (open === null) open = { language: fence[1] ?? '', line: index + 2, lines: [] };
    else {
      blocks.push(open);
      open = null;
    }
  }
  return blocks;
}

/** Commands of all console blocks, in order. */
export function commandsOf(markdown: string): readonly ShownCommand[] {
  return blocksOf(markdown)
    .filter((block) => block.language === 'console' || block.language === 'sh')
    .flatMap(({ lines, line }) => commandsOfBlock(lines, line));
}

function commandsOfBlock(lines: readonly string[], first: number): readonly ShownCommand[] {
  const commands: { line: number; text: string; exit: number | 'any'; output: string[] }[] = [];
  for (const [index, line] of lines.entries()) {
    if (!line.startsWith('$ ')) {
      commands.at(-1)?.output.push(line);
      continue;
    }
    const [, text = '', exit = '0'] = /^\$ (.*?)(?:\s+# exit (\d+|any).*)?$/.exec(line) ?? [];
    commands.push({ line: first + index, text, exit: exit === 'any' ? 'any' : Number(exit), output: [] });
  }
  return commands;
}

/** Expected lines that no line of the real output is like. Numbers may differ, `…` stands for anything. */
export function missingLines(expected: readonly string[], real: string): readonly string[] {
  const lines = real.split('\n').map(shape);
  return expected.filter((line) => {
    if (line.trim() === '' || line.trim() === '…') return false;
    const pattern = new RegExp(`^${shape(line).split('…').map(escaped).join('.*')}$`);
    return !lines.some((candidate) => pattern.test(candidate));
  });
}

const shape = (line: string): string =>
  line
    .replace(/\d+(\.\d+)?/g, '#')
    .replace(/\s+/g, ' ')
    .trim();
const escaped = (text: string): string => text.trim().replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** YAML blocks that name a file in their first line, `# file: NAME`. */
export function filesOf(markdown: string): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  for (const { language, lines } of blocksOf(markdown)) {
    const name = language === 'yaml' ? /^# file: (\S+)$/.exec(lines[0] ?? '')?.[1] : undefined;
    if (name !== undefined) files.set(name, `${lines.join('\n')}\n`);
  }
  return files;
}

/** Links to files of this repository that lead nowhere; anchors are looked up too. */
export function brokenLinks(file: string): readonly string[] {
  const text = readFileSync(file, 'utf8').replace(/^```[\s\S]*?^```/gm, '');
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map((m) => m[1] as string);
  return targets.filter((target) => {
    if (/^[a-z]+:/.test(target)) return false;
    const [to = '', anchor] = target.split('#');
    const there = to === '' ? file : path.resolve(path.dirname(file), to);
    if (!existsSync(there)) return true;
    return anchor !== undefined && !anchorsOf(readFileSync(there, 'utf8')).includes(anchor);
  });
}

const anchorsOf = (markdown: string): readonly string[] =>
  [...markdown.matchAll(/^#+ (.*)$/gm)].map((m) =>
    (m[1] as string)
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\- ]/gu, '')
      .replaceAll(' ', '-'),
  );

/** `belay …` in running text, between backticks. */
export const inlineCommandsOf = (markdown: string): readonly string[] =>
  [...markdown.replace(/^```[\s\S]*?^```/gm, '').matchAll(/`(belay [^`]+)`/g)].map((m) =>
    (m[1] as string).replace(/\s+/g, ' '),
  );

/** What is wrong with a command line of ours, judged by the verbs and options there are; null: nothing. */
export function usageProblem(text: string, program: Command): string | null {
  const plain = text.replace(/\$\([^()]*\)|"[^"]*"|'[^']*'/g, 'X');
  const [, rest] = /(?:^|\s)belay (.*)$/.exec(plain) ?? [];
  const words = (rest ?? '').split(/\s*[|>]\s*/)[0]?.split(/\s+/) ?? [];
  if (words[0]?.startsWith('-')) return /^(--help|--version|-V|-h)$/.test(words[0]) ? null : words[0];
  let command = program;
  while (command.commands.length > 0 && words.length > 0) {
    const name = words.shift() as string;
    if (/^[A-Z]+$/.test(name)) return null;
    const found = command.commands.find((c) => c.name() === name);
    if (found === undefined) return `there is no ${command.name()} ${name}`;
    command = found;
  }
  return argumentProblem(command, words);
}

function argumentProblem(command: Command, words: readonly string[]): string | null {
  let given = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as string;
    // What follows is somebody else's.
    if (word === '--') break;
    if (word === '…') continue;
    if (!word.startsWith('-') || word === '-') {
      given++;
      continue;
    }
    if (word === '--help') continue;
    const option = optionOf(command, word);
    if (option === undefined) return `${command.name()} has no option ${word}`;
    if (!option.required && !option.optional) continue;
    i++;
    while (option.variadic && words[i + 1] !== undefined && !words[i + 1]?.startsWith('-')) i++;
  }
  const most = command.registeredArguments.some((a) => a.variadic)
    ? Infinity
    : command.registeredArguments.length;
  return given > most ? `${command.name()} takes ${most} arguments, not ${given}` : null;
}

/** Options given before the verb count for it too. */
function optionOf(command: Command, word: string): Option | undefined {
  for (let at: Command | null = command; at !== null; at = at.parent) {
    const found = at.options.find((o: Option) => o.long === word || o.short === word);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Files of the repository under version control. */
export const trackedFiles = (root: string): readonly string[] =>
  execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
    .split('\0')
    .filter((name) => name !== '' && existsSync(path.join(root, name)));
