/** Documents the journeys apply. */
export const replicaSet = (
  name: string,
  spec: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDB',
  metadata: { name },
  spec: { type: 'ReplicaSet', members: 3, ...spec },
});

export const user = (cluster: string, name = 'app'): Readonly<Record<string, unknown>> => ({
  apiVersion: 'belay.dev/v1',
  kind: 'MongoDBUser',
  metadata: { name: `${cluster}-${name}` },
  spec: {
    username: name,
    db: 'admin',
    mongodbResourceRef: { name: cluster },
    roles: [{ name: 'readWriteAnyDatabase', db: 'admin' }],
  },
});
