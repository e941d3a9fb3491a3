/** The agent of a host. */
export { type AgentOptions, type RunningAgent, runAgent } from './agent.ts';
