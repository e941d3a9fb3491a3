/** Each report from the field that this version is about is proven by tests whose titles name it, or says why it cannot be. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { idsInTitles } from '../scripts/coverage-spec.ts';
import { ROOT } from './support/stack.ts';

interface Report {
  readonly id: string;
  readonly area: string;
  readonly title: string;
  readonly symptom: string;
  readonly input: string;
  readonly expected: string;
  readonly testable: string;
  readonly url: string;
}

const CASES = path.join(ROOT, 'test/cases/field-reports.yaml');
const reports = parse(readFileSync(CASES, 'utf8')) as readonly Report[];

/** Reports that cannot apply, each with its reason. */
const EXCUSED: Readonly<Record<string, string>> = {
  'TLS-06':
    'certificates and authorities that people supply are refused at admission (spec.security.tls.certsSecretPrefix, spec.security.tls.ca), so there is no secret of theirs that could go missing',
  'DEL-09':
    'backups are refused at admission (spec.backup), so a deleted database has no snapshots to keep or to delete',
};

/** Ids in the titles of all tests, with the files they stand in. */
function titled(): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const root of ['src', 'test', 'scripts']) {
    for (const name of readdirSync(path.join(ROOT, root), { recursive: true, encoding: 'utf8' })) {
      if (!/\.test\.ts$|conformance\.ts$/.test(name)) continue;
      const file = path.join(root, name);
      for (const id of idsInTitles(readFileSync(path.join(ROOT, file), 'utf8')))
        found.set(id, [...(found.get(id) ?? []), file]);
    }
  }
  return found;
}

test('every report has all its parts, and its id once', () => {
  expect(reports.length).toBeGreaterThan(50);
  expect(new Set(reports.map((r) => r.id)).size).toBe(reports.length);
  for (const report of reports)
    for (const part of ['id', 'area', 'title', 'symptom', 'input', 'expected', 'testable', 'url'] as const)
      expect(typeof report[part], `${report.id}.${part}`).toBe('string');
});

test('every report is named by the title of a test, or is excused with a reason', () => {
  const named = titled();
  const missing = reports.filter(({ id }) => !named.has(id) && EXCUSED[id] === undefined);
  expect(missing.map(({ id, area, title }) => `${id} (${area}) ${title}`)).toEqual([]);
});

test('nobody is excused who is named, and nobody who does not exist', () => {
  const named = titled();
  const ids = new Set(reports.map((r) => r.id));
  expect(Object.keys(EXCUSED).filter((id) => named.has(id) || !ids.has(id))).toEqual([]);
  for (const [id, reason] of Object.entries(EXCUSED)) expect(reason.length, id).toBeGreaterThan(30);
});
