/** The agent channel, both ends. */
export {
  type AgentConnection,
  type AgentHandlers,
  type AgentIdentity,
  type AgentState,
  type ConnectOptions,
  connectAgent,
} from './client.ts';
export { makeSigningRequest } from './csr.ts';
export type { MemberItem } from './facts.ts';
export { FenceGate, type FenceMemory } from './fence.ts';
export {
  caFingerprint,
  createJoinHandler,
  type JoinAnswer,
  type JoinHostOptions,
  type JoinOptions,
  type JoinRequest,
  joinHost,
} from './join.ts';
export { RENEW_BELOW, RENEW_CHECK } from './limits.ts';
export { hideSnapshot, revealSnapshot } from './protocol.ts';
export {
  type AgentServer,
  type AgentServerOptions,
  createAgentServer,
  type PeerIdentity,
  type RenewedIdentity,
} from './server.ts';
