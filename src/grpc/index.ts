/** YDB's maintenance service over gRPC, so that unmodified clients such as ydbops work (C6.2). */
export { type Endpoint, type EndpointOptions, serveMaintenance } from './server.ts';
export type { Caller, ServiceDeps } from './service.ts';
