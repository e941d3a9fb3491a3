import { describeStore } from './conformance.ts';
import { openMemoryStore } from './memory.ts';
import { memoryDisk } from './memory-tables.ts';

describeStore('memory', async ({ clock, limits }) => {
  let disk = memoryDisk();
  return {
    open: async () => openMemoryStore({ clock, limits, disk }),
    remove: async () => {
      disk = memoryDisk();
    },
  };
});
