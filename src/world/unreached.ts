/** Words of the closed sets that nothing reaches, with the reason. */

/** See the head of this file; the keys are `kind name`. */
export const UNREACHED: Readonly<Record<string, string>> = {
  'Reason AuthorityChanged': 'the authority of the world is never replaced',
  'Reason VolumeGrowth': 'the hosts of the world do not grow volumes',
  'Refusal NotPlaced': 'a member that vanished from the record between plan and guard of one pass',
  'Code AlreadyRunning': 'two agents that are started on one data folder at once',
  'Code Closed': 'an agent that is stopped while it joins for the first time',
  'Code FileNotWritten': 'a disk that fails otherwise than by being full',
  'Code JoinTokenMissing': 'an agent that is started by hand without its token; the program says so before',
  'Code NoHost': 'a placement without a host, which no planner makes',
  'Code ProtocolError': 'an agent and a control plane that do not speak the same protocol',
  'Code TooManyRequests': 'more commands at once than any pass gives; the limit is for bugs',
};
