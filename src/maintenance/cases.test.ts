import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { deskDriver } from './cases/deskDriver.ts';
import { playInternal } from './cases/internal.ts';
import { playPublic } from './cases/public.ts';
import { type Scenario, World } from './cases/scenario.ts';
import { BETTER, ORIGINAL } from './compat.ts';

const file = new URL('../../test/cases/maintenance.yaml', import.meta.url);
const { cases } = parse(readFileSync(file, 'utf8')) as { cases: readonly Scenario[] };

describe('C5 scenarios of the internal layer pass as they are', () => {
  for (const scenario of cases.filter((c) => c.layer === 'cms')) {
    const compat = scenario.status === 'quirk' ? ORIGINAL : BETTER;
    test(scenario.id, () => expect(playInternal(scenario, compat)).toEqual([]));
  }
});

describe('C1 scenarios of the public layer pass as they are', () => {
  for (const scenario of cases.filter((c) => c.layer === 'maintenance')) {
    const compat = scenario.status === 'quirk' ? ORIGINAL : BETTER;
    test(scenario.id, async () => {
      const world = new World(scenario.cluster);
      expect(await playPublic(scenario, world, deskDriver(world, compat))).toEqual([]);
    });
  }
});
