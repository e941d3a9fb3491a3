/** What the repository must not hold: paths of one machine, hosts of package registries, and talk about how it was written. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { trackedFiles } from './support/markdown.ts';
import { ROOT } from './support/stack.ts';

/** Put together here, so that this file does not hold them itself. */
const words = (...parts: readonly string[]): string => parts.join('');
const FORBIDDEN: readonly (readonly [RegExp, string])[] = [
  [new RegExp(words('(?<![\\w.-])/wo', 'rk/')), 'a path of one machine'],
  [new RegExp(words('\\.\\./sha', 'red')), 'a path outside of the repository'],
  [
    new RegExp(words('registry\\.', 'npmjs|regi', 'stry\\.yarnpkg|de', 'b\\.debian\\.org|py', 'pi\\.org')),
    'a registry host',
  ],
  [
    new RegExp(
      words(
        '\\b(cla',
        'ude|anth',
        'ropic|chat',
        'gpt|open',
        'ai|co',
        'pilot|l',
        'lm|large language',
        ' model|sub',
        'agent)s?\\b',
      ),
      'i',
    ),
    'talk about how it was written',
  ],
  [
    new RegExp(words('\\b(a', 'i|coding) (ses', 'sion|agent|assis', 'tant)s?\\b'), 'i'),
    'talk about how it was written',
  ],
];

test('no file holds a path of one machine, a registry host, or talk about how it was written', () => {
  const found = trackedFiles(ROOT).flatMap((name) => {
    const lines = readFileSync(path.join(ROOT, name), 'utf8').split('\n');
    return lines.flatMap((line, i) =>
      FORBIDDEN.filter(([pattern]) => pattern.test(line)).map(([, what]) => `${name}:${i + 1} ${what}`),
    );
  });
  expect(found).toEqual([]);
});

test('the lock file names versions and checksums, not places', () => {
  const lock = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version?: string; integrity?: string; resolved?: string }>;
  };
  const packages = Object.entries(lock.packages).filter(([name]) => name !== '');
  expect(packages.filter(([, p]) => p.resolved !== undefined).map(([name]) => name)).toEqual([]);
  expect(packages.filter(([, p]) => p.integrity === undefined).map(([name]) => name)).toEqual([]);
});

test('the lock file holds every dependency it names, or npm ci refuses it', () => {
  interface Locked {
    readonly dependencies?: Record<string, string>;
    readonly optionalDependencies?: Record<string, string>;
  }
  const { packages } = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>;
  };
  /** A package is looked for beside its user, and then in every folder above. */
  const held = (user: string, name: string): boolean => {
    const inside = user === '' ? '' : `${user}/`;
    if (`${inside}node_modules/${name}` in packages) return true;
    return user !== '' && held(user.slice(0, Math.max(0, user.lastIndexOf('node_modules/') - 1)), name);
  };
  const missing = Object.entries(packages).flatMap(([user, p]) =>
    Object.keys({ ...p.dependencies, ...p.optionalDependencies })
      .filter((name) => !held(user, name))
      .map((name) => `${name} of ${user}`),
  );
  expect(missing).toEqual([]);
});

test('an installation runs no scripts: npm would compile what comes built, since the lock file does not say otherwise', () => {
  expect(readFileSync(path.join(ROOT, '.npmrc'), 'utf8')).toMatch(/^ignore-scripts=true$/m);
});
