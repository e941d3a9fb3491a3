/** Effects on the platform: runtimes and volumes. */
import type { Bytes } from '../../base/units.ts';
import { type MemberState, type Placement, type ServiceSpec, serviceHostname } from '../../clusters/index.ts';
import type { Effect } from '../../engine/provider.ts';
import { memberSecrets } from '../names.ts';
import { placementOf, serviceSpec } from '../serviceSpec.ts';
import { asSeen, done, member, notPlaced, type Work } from './work.ts';

export async function importMember(work: Work, name: string, placement: Placement): Promise<Effect> {
  const spec = await specOf(work, member(work, name), placement);
  return done(await work.platform.import(spec, work.stepId, work.fence));
}

export async function deploy(work: Work, name: string, version: string): Promise<Effect> {
  const target = member(work, name);
  const placement = placementOf(target);
  if (placement === null || target.serviceId === null) throw notPlaced(name);
  const spec = { ...(await specOf(work, target, placement)), version };
  return done(
    await work.platform.deploy(target.serviceId, spec, work.stepId, work.fence, asSeen(work, target)),
  );
}

export async function specOf(work: Work, target: MemberState, placement: Placement): Promise<ServiceSpec> {
  const { desired, state, installation, credentials } = work;
  const hostname = serviceHostname(desired, target.name);
  const owner = await credentials.marker(installation, state.uid, target.name, hostname);
  return serviceSpec(desired, target, placement, owner, work.agentVersion);
}

export async function deleteRuntime(work: Work, name: string): Promise<Effect> {
  const { serviceId, host } = member(work, name);
  if (serviceId === null || host === null) throw notPlaced(name);
  const service = { id: serviceId, host, clusterUid: work.state.uid };
  return done(await work.platform.deleteRuntime(service, work.stepId, work.fence));
}

export async function growVolume(work: Work, name: string, sizeBytes: Bytes): Promise<Effect> {
  const { volumeId, host } = member(work, name);
  if (volumeId === null || host === null) throw notPlaced(name);
  const volume = { id: volumeId, host, clusterUid: work.state.uid, member: name };
  return done(await work.platform.growVolume(volume, sizeBytes, work.stepId, work.fence));
}

/** A member that has left takes its certificate along; deletion of the whole cluster takes all secrets at once. */
export async function deleteVolume(work: Work, name: string): Promise<Effect> {
  const { volumeId, host, stage } = member(work, name);
  if (volumeId === null || host === null) throw notPlaced(name);
  const volume = { id: volumeId, host, clusterUid: work.state.uid, member: name };
  const started = done(await work.platform.deleteVolume(volume, work.stepId, work.fence));
  if (stage !== 'removing') return started;
  return { ...started, also: { secretPrefixesToDelete: [memberSecrets(work.state.uid, name)] } };
}
