/** Maintenance tasks that are documents. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { CliRig } from './testing/rig.ts';
import { makeTopologyCli } from './testing/topology.ts';

let cli: CliRig;
beforeEach(async () => {
  cli = await makeTopologyCli();
});
afterEach(() => cli.close());

test('C6.1 apply --wait of a task waits until it is granted, and does not end with 0 where it fails or waits on', async () => {
  const document = (name: string, hosts: readonly string[]): string => `apiVersion: belay.dev/v1
kind: MaintenanceTask
metadata: {name: ${name}}
spec: {groups: [{actions: [${hosts.map((host) => `{scope: {host: ${host}}, duration: 5m}`).join(', ')}]}]}
`;
  const apply = (name: string, hosts: readonly string[], ...options: readonly string[]) =>
    cli.belay(['apply', '--wait', ...options, '-f', '-'], {
      stdin: document(name, hosts),
      sleep: (millis) => cli.api.clock.advance(millis),
    });
  const held = await apply('first', ['y1']);
  expect([held.code, held.out]).toEqual([0, 'maintenancetasks/first created\n']);
  const late = await apply('second', ['y2'], '--timeout', '1m');
  expect(late.code).toBe(3);
  expect(late.err).toContain('error WaitTimedOut: task second still waits: ');
  const then = await apply('second', ['y2'], '--timeout', '10m');
  expect([then.code, then.out]).toEqual([0, 'maintenancetasks/second unchanged\n']);
  const failed = await apply('third', ['nowhere']);
  expect(failed.code).toBe(4);
  expect(failed.err).toContain('error Invalid: Maintenance task third was refused: there is no host nowhere');
});

test('a viewer who changes a maintenance task is told that he may not, and not what cannot be changed', async () => {
  const task = (duration: string): string => `apiVersion: belay.dev/v1
kind: MaintenanceTask
metadata: {name: kernel}
spec: {groups: [{actions: [{scope: {host: spare}, duration: ${duration}}]}]}
`;
  const host = `apiVersion: belay.dev/v1\nkind: Host\nmetadata: {name: spare}\nspec: {}\n`;
  const made = await cli.belay(['apply', '-f', '-'], { stdin: `${host}---\n${task('30m')}` });
  expect([made.code, made.out]).toEqual([0, 'hosts/spare created\nmaintenancetasks/kernel created\n']);
  const apply = (as: 'viewer' | 'operator', ...options: readonly string[]) =>
    cli.belay(['apply', ...options, '-f', '-'], {
      env: { BELAY_TOKEN: cli.api.token[as] },
      stdin: task('40m'),
    });
  const refused = await apply('viewer');
  expect(refused.code).toBe(4);
  expect(refused.err).toMatch(/^error Forbidden: token the viewer has role viewer, but operator is needed/);
  expect(refused.err).not.toContain('cannot be changed');
  const fixed = { code: 4, err: expect.stringContaining('cannot be changed once created') };
  expect(await apply('operator')).toMatchObject(fixed);
  expect(await apply('viewer', '--dry-run')).toMatchObject(fixed);
});

test('C6.1 who applies another’s document of a task again changes nothing, and the task stays theirs', async () => {
  const document = `apiVersion: belay.dev/v1
kind: MaintenanceTask
metadata: {name: kernel}
spec: {groups: [{actions: [{scope: {host: y1}, duration: 30m}]}]}
`;
  const apply = (as: 'operator' | 'admin') =>
    cli.belay(['apply', '-f', '-'], { env: { BELAY_TOKEN: cli.api.token[as] }, stdin: document });
  expect((await apply('operator')).out).toBe('maintenancetasks/kernel created\n');
  const again = await apply('admin');
  expect([again.code, again.out]).toEqual([0, 'maintenancetasks/kernel unchanged\n']);
  expect((await cli.belay(['maintenance', 'get', 'kernel'])).out).toContain('owner the operator');
});
