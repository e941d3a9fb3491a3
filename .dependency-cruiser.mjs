// Layer rules, made from the one table in scripts/layers.ts.
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';

const source = stripTypeScriptTypes(readFileSync(new URL('./scripts/layers.ts', import.meta.url), 'utf8'));
const { ROOMS } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

const tests = '(\\.test\\.ts$|/testing/|/(fixtures|play)\\.ts$|conformance\\.ts$)';
const forbidden = ROOMS.map((room) => ({
  name: `room:${room.name}`,
  comment: `${room.name} may import ${room.imports.join(', ') || 'nothing of ours'}`,
  severity: 'error',
  from: { path: `^src/${room.name}/`, pathNot: tests },
  to: { path: '^src/', pathNot: [room.name, ...room.imports].map((name) => `^src/${name}/`) },
}));
forbidden.push({
  name: 'no-circular',
  severity: 'error',
  from: { path: '^src/' },
  to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
});
forbidden.push({
  name: 'pure',
  comment: 'pure rooms use no Node modules; zod, yaml and croner (given a moment) are pure themselves',
  severity: 'error',
  from: {
    path: `^src/(${ROOMS.filter((r) => r.pure)
      .map((r) => r.name)
      .join('|')})/`,
    pathNot: tests,
  },
  to: { dependencyTypes: ['core', 'npm', 'npm-dev'], pathNot: 'node_modules/(zod|yaml|croner)/' },
});
forbidden.push({
  name: 'resolves',
  severity: 'error',
  from: { path: '^src/' },
  to: { couldNotResolve: true },
});

export default {
  forbidden,
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'types', 'default'],
    },
  },
};
