/** The provider room: turns the pure brain into readings and effects through the engine's ports. */

export { encodeUserInfo, userConnectionString } from './connection.ts';
export { CLUSTER_FINALIZER, namedSecret, USER_FINALIZER, WARNINGS_ANNOTATION } from './names.ts';
export { addProvider, type ProviderOptions, type RunningProvider } from './setup.ts';
export { connectionSecretName, passwordSecret } from './userObjects.ts';
