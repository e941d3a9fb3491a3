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
