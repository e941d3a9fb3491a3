/** From generated descriptors to what the gRPC library registers and calls. */
import {
  create,
  type DescMethod,
  type DescService,
  fromBinary,
  type Message,
  toBinary,
} from '@bufbuild/protobuf';
import type { MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';

/** All methods of a service, by their name in lower camel case. All are unary. */
export const definitionOf = (service: DescService): ServiceDefinition =>
  Object.fromEntries(service.methods.map((method) => [method.localName, methodOf(service, method)]));

const methodOf = (service: DescService, method: DescMethod): MethodDefinition<Message, Message> => ({
  path: `/${service.typeName}/${method.name}`,
  requestStream: false,
  responseStream: false,
  requestSerialize: (value) => Buffer.from(toBinary(method.input, create(method.input, value))),
  requestDeserialize: (bytes) => fromBinary(method.input, bytes),
  responseSerialize: (value) => Buffer.from(toBinary(method.output, create(method.output, value))),
  responseDeserialize: (bytes) => fromBinary(method.output, bytes),
});
