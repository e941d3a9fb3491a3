/** Fail points, locks, profiling and other administration. */
import type { Document } from 'bson';
import { Long } from 'bson';
import { required, rule, toBoolean, toNumber } from './arguments.ts';
import { command, onCluster, onDatabase } from './call.ts';
import { fail } from './errors.ts';

const configureFailPoint = command({
  name: 'configureFailPoint',
  adminOnly: true,
  auth: onCluster('anyAction'),
  access: 'any',
  run: (call) => {
    if (!call.node.testCommandsEnabled) throw fail(59, "no such command: 'configureFailPoint'");
    return call.services.failpoints.configure(call.command);
  },
});

/** A command outside the stable API, for clients that test how they are refused. */
const testVersion2 = command({
  name: 'testVersion2',
  auth: 'none',
  access: 'any',
  run: (call) => {
    if (!call.node.testCommandsEnabled) throw fail(59, "no such command: 'testVersion2'");
    return {};
  },
});

// ── fsync ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const fsync = command({
  name: 'fsync',
  adminOnly: true,
  auth: onCluster('fsync'),
  access: 'any',
  shape: {
    fsync: rule.any,
    lock: rule.flag,
    fsyncLockAcquisitionTimeoutMillis: rule.number,
    async: rule.flag,
  },
  run: (call) => {
    if (!toBoolean(call.command['lock'])) return { numFiles: 1 };
    call.services.fsync.locks += 1;
    return {
      info: 'now locked against writes, use db.fsyncUnlock() to unlock',
      lockCount: Long.fromNumber(call.services.fsync.locks),
      seeAlso: 'http://dochub.mongodb.org/core/fsynccommand',
    };
  },
});

const fsyncUnlock = command({
  name: 'fsyncUnlock',
  adminOnly: true,
  auth: onCluster('unlock'),
  access: 'any',
  run: (call) => {
    const { fsync: lock } = call.services;
    if (lock.locks === 0) throw fail(20, 'fsyncUnlock called when not locked');
    lock.locks -= 1;
    if (lock.locks === 0) lock.released.notify();
    return { info: 'fsyncUnlock completed', lockCount: Long.fromNumber(lock.locks) };
  },
});

// ── profiling ──────────────────────────────────────────────────────────────────────────────────────────────────────

const profile = command({
  name: 'profile',
  auth: onDatabase('enableProfiler'),
  access: 'any',
  shape: { profile: required(rule.number), slowms: rule.number, sampleRate: rule.number, filter: rule.any },
  run: (call) => {
    const { profile: level, slowms, sampleRate } = call.command;
    return call.services.profiler.set(call.db, toNumber(level)!, toNumber(slowms), toNumber(sampleRate));
  },
});

// ── answers without much behind them ───────────────────────────────────────────────────────────────────────────────

function runConnPoolStats(): Document {
  return {
    numClientConnections: 0,
    numAScopedConnections: 0,
    totalInUse: 0,
    totalAvailable: 0,
    totalLeased: 0,
    totalCreated: 0,
    totalRefreshing: 0,
    pools: {},
    hosts: {},
    replicaSets: {},
  };
}

const connPoolStats = command({
  name: 'connPoolStats',
  auth: onCluster('connPoolStats'),
  access: 'any',
  run: runConnPoolStats,
});

const planCacheClear = command({
  name: 'planCacheClear',
  auth: onDatabase('planCacheWrite'),
  access: 'any',
  run: () => ({}),
});

const planCacheListFilters = command({
  name: 'planCacheListFilters',
  auth: onDatabase('planCacheIndexFilter'),
  access: 'any',
  run: () => ({ filters: [] }),
});

const mapReduce = command({
  name: 'mapReduce',
  aliases: ['mapreduce'],
  auth: (context) => [
    {
      resource: { db: context.db, collection: String(Object.values(context.command)[0]) },
      actions: ['find'],
    },
  ],
  access: 'read',
  run: () => {
    throw fail(115, 'mapReduce is not supported by this server: it runs no JavaScript');
  },
});

const lockInfo = command({
  name: 'lockInfo',
  adminOnly: true,
  auth: onCluster('serverStatus'),
  access: 'any',
  run: () => ({ lockInfo: [] }),
});

/** The commands of this file. */
export const ADMIN_COMMANDS = [
  configureFailPoint,
  testVersion2,
  fsync,
  fsyncUnlock,
  profile,
  connPoolStats,
  planCacheClear,
  planCacheListFilters,
  mapReduce,
  lockInfo,
];
