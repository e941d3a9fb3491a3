import { type CliRig, makeCli } from './rig.ts';

const ids = [1, 2, 3, 4, 5, 6, 7, 8];
/** Eight hosts with one storage node each and one group over all of them: a second host is one too many in mode strong. */
export const TOPOLOGY = `apiVersion: belay.dev/v1
kind: Topology
metadata: {name: ydb}
spec:
  nodes:
${ids.map((id) => `    - {id: ${id}, host: y${id}, state: Up, disks: [{id: 1}]}`).join('\n')}
  storageGroups:
    - {id: 1, erasure: block-4-2, vdisks: [${ids.map((id) => `{node: ${id}, disk: 1}`).join(', ')}]}
  limits: {cluster: {percent: 0}}
`;

/** A command line beside a control plane that knows this topology. */
export async function makeTopologyCli(): Promise<CliRig> {
  const cli = await makeCli();
  await cli.belay(['apply', '-f', cli.file('ydb.yaml', TOPOLOGY)]);
  await cli.api.clock.advance(1);
  return cli;
}
