/**
 * Generated files: reference pages, JSON Schemas for editors, the OpenAPI document, and the picture of the rooms in
 * ARCHITECTURE.md. `--check` changes nothing and fails when a file is not what would be written.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { documentJsonSchema, referenceMarkdown } from '../src/model/index.ts';
import { apiRoutes } from '../src/server/api.ts';
import type { ApiDeps } from '../src/server/deps.ts';
import { openApiDocument } from '../src/server/openapi.ts';
import { ROOMS } from './layers.ts';

const BEGIN = '<!-- generated: rooms -->';
const END = '<!-- /generated -->';

/** The rooms as a table and a picture; arrows are imports. */
function roomsMarkdown(): string {
  const rows = ROOMS.map(
    (r) => `| \`src/${r.name}/\` | ${r.purpose} | ${r.pure ? 'pure' : ''} | ${r.imports.join(', ') || '–'} |`,
  );
  const direct = ROOMS.flatMap((room) => {
    const through = new Set(room.imports.flatMap((i) => ROOMS.find((r) => r.name === i)?.imports ?? []));
    return room.imports.filter((i) => !through.has(i)).map((i) => `  ${room.name} --> ${i}`);
  });
  return [
    '| room | what for | | may import |',
    '|---|---|---|---|',
    ...rows,
    '',
    '```mermaid',
    'flowchart BT',
    ...direct,
    '```',
  ].join('\n');
}

function architecture(): string {
  const text = readFileSync('ARCHITECTURE.md', 'utf8');
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`ARCHITECTURE.md has lost its marks ${BEGIN} and ${END}`);
  return `${text.slice(0, begin + BEGIN.length)}\n${roomsMarkdown()}\n${text.slice(end)}`;
}

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** Routes are only described here; none is called. */
const UNUSED = { version } as ApiDeps;

const FILES: Readonly<Record<string, () => string>> = {
  'docs/reference/kinds.md': referenceMarkdown,
  'docs/reference/belay.schema.json': () => json(documentJsonSchema()),
  'docs/reference/openapi.json': () =>
    json(
      openApiDocument(
        apiRoutes(UNUSED, () => ''),
        version,
      ),
    ),
  'ARCHITECTURE.md': architecture,
};

const checkOnly = process.argv.includes('--check');
const stale: string[] = [];
for (const [file, make] of Object.entries(FILES)) {
  const wanted = make();
  const is = existsSync(file) ? readFileSync(file, 'utf8') : null;
  if (is === wanted) continue;
  stale.push(file);
  if (checkOnly) continue;
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, wanted);
}
if (stale.length > 0) console.log(`${checkOnly ? 'not up to date' : 'written'}: ${stale.join(', ')}`);
process.exitCode = checkOnly && stale.length > 0 ? 1 : 0;
if (process.exitCode === 1) console.error('fix: npm run generate');
