/** Seeds that once showed something: played by every test run, for ever. */

import type { ScenarioKind } from './scenario.ts';

/** See the head of this file. */
export interface KeptSeed {
  readonly seed: number;
  /** Left out: replica sets. */
  readonly kind?: ScenarioKind;
  /** What went wrong. */
  readonly showed: string;
}

export const KEPT_SEEDS: readonly KeptSeed[] = [
  { seed: 7, showed: 'L4 was judged by Ready, and a member lagged for its own reasons' },
  { seed: 11, showed: 'an operation behind a waiting one said that it begins with the next pass' },
  { seed: 14, showed: 'the replacement of the only member waited for a grant that nobody could give' },
  { seed: 35, showed: 'a process that was not up yet counted as a second member down' },
  { seed: 3320, showed: 'a restart of the only member held up the members that would have let it go on' },
  { seed: 3618, showed: 'a restart waited for a vote that a person had taken away and nobody gave back' },
  { seed: 5077, showed: 'a set could not shrink to its last member' },
  { seed: 5199, showed: 'certificates came to their end after the world had been called settled' },
  { seed: 5632, showed: 'a member stayed locked for what a dead control plane had been granted' },
  { seed: 5699, showed: 'a restart that was held up on its way met a member that had become primary' },
  { seed: 20_051, showed: 'a certificate whose answer was lost was waited for for ever' },
  {
    seed: 20_751,
    showed: 'a deletion all of which was under way was called blocked by what no longer mattered',
  },
  { seed: 401_512, showed: 'a newcomer that had just been given its vote was restarted as if it had none' },
  {
    seed: 501_010,
    showed: 'a primary that was to be hidden waited for heirs that waited for their votes behind it',
  },
  { seed: 504_272, showed: 'members were let go that were not back from a suspension yet' },
  {
    seed: 509_229,
    showed: 'who was to leave and had never joined was restarted for a new configuration, and waited for',
  },
  { seed: 510_288, showed: 'who was to leave when its set was suspended was missing when it came back' },
  { seed: 512_041, showed: 'a configuration whose answer was lost stayed where it was not wanted any more' },
  {
    seed: 513_660,
    showed: 'a substitute that was given up too late left after the member whose place it was to take',
  },
  { seed: 514_601, showed: 'a clock that went back held up a vote until it was again what it had been' },
  { seed: 800_607, showed: 'a suspension that had just been taken back was granted its outage' },
  { seed: 802_077, showed: 'a version that was taken back after it had run was told to be put back' },
  {
    seed: 805_752,
    showed: 'a member that was being taken away was given passwords and started again for them',
  },
  {
    seed: 813_685,
    showed:
      'an operation, the restart it waited for and the members that would allow it waited for each other',
  },
  { seed: 832_045, showed: 'a certificate that was given anew under the same version was not taken' },
  { seed: 836_132, showed: 'who was to leave and never ran was waited for after a suspension' },
  { seed: 839_230, showed: 'a substitute that was given a certificate was no substitute any more' },
  { seed: 840_408, showed: 'who left its set while it was given a configuration was waited for' },
  { seed: 840_508, showed: 'the next member was to leave by a reading from before the one that left' },
  {
    seed: 841_684,
    showed: 'a member that a late reading called starting was taken down beside one that had ended',
  },
  { seed: 842_369, showed: 'a rotation of certificates that TLS was switched off under never ended' },
  { seed: 870_068, showed: 'a certificate that was half given held up the passwords that came after it' },
  { seed: 887_511, showed: 'a restart waited for those who were to join after it' },
  { seed: 887_701, showed: 'a volume was deleted by a reading from before its member had joined' },
  { seed: 900_668, showed: 'a set was initiated through a second member while the first was at it' },
  { seed: 885_480, showed: 'a runtime whose import was not answered was forgotten with its member' },
  { seed: 887_756, showed: 'a cluster was called suspended while what was left of a substitute ran' },
  { seed: 888_838, showed: 'a primary that was handing over was restarted as if it were unwell' },
  {
    seed: 3,
    kind: 'sharded',
    showed: 'a balancer that a person had switched on moved chunks below a restart',
  },
  { seed: 7, kind: 'sharded', showed: 'a shard was registered before its members had the binary for it' },
  { seed: 30, kind: 'sharded', showed: 'a balancer was called stopped by what a router had told before' },
  {
    seed: 109,
    kind: 'sharded',
    showed: 'shards got a binary before a config server that was being replaced',
  },
  {
    seed: 3080,
    kind: 'sharded',
    showed: 'what the balancer was before a change was taken from a late reading',
  },
  {
    seed: 20_162,
    kind: 'sharded',
    showed: 'a change right after a person switched the balancer off took it for on',
  },
  {
    seed: 20_911,
    kind: 'sharded',
    showed: 'a rotation of passwords and the members that were to be added waited for each other',
  },
  {
    seed: 21_179,
    kind: 'sharded',
    showed: 'a set that was made smaller while it was being suspended lost its majority',
  },
  {
    seed: 21_677,
    kind: 'sharded',
    showed: 'a shard’s member that was being restarted got a new binary before the config servers',
  },
  { seed: 1312, kind: 'sharded', showed: 'a stop of the balancer that had failed counted as one' },
  {
    seed: 1253,
    kind: 'replicaSets',
    showed: 'a certificate whose answer was lost came again with another configuration',
  },
  { seed: 21_578, kind: 'sharded', showed: 'a port taken during a suspension held its router up for ever' },
  { seed: 300_564, showed: 'a second member was restarted while nobody knew whether the first had been' },
  { seed: 300_719, showed: 'a member that lagged was restarted though no majority was left without it' },
  {
    seed: 401_536,
    showed: 'a restart that began while the only member was unwell held up those to be added',
  },
  {
    seed: 700_405,
    kind: 'maintained',
    showed:
      'a member that was being restarted and became one too many was forgotten, and another went down too',
  },
  {
    seed: 701_353,
    kind: 'maintained',
    showed: 'a primary that was not to be one any more waited for an heir, and its heirs for their votes',
  },
  {
    seed: 600_768,
    kind: 'sharded',
    showed: 'a person’s hand came after a switch of the balancer and before its end was told',
  },
  {
    seed: 600_948,
    kind: 'sharded',
    showed: 'a cluster that was at work beside a block was called settled',
  },
  {
    seed: 601_003,
    kind: 'sharded',
    showed: 'config servers were rolled while a shard’s member was down and lacked its cure',
  },
  {
    seed: 711_048,
    kind: 'replicaSets',
    showed:
      'the ending process of a member whose upgrade was taken back was taken for the one that follows it',
  },
  {
    seed: 703_905,
    kind: 'maintained',
    showed: 'a member was back between two looks of the checker, and gone again at the second',
  },
  {
    seed: 650_102,
    kind: 'sharded',
    showed: 'members were worked on while a person’s switch of the balancer waited for a router',
  },
  {
    seed: 705_141,
    kind: 'maintained',
    showed: 'a task was granted a member that had been given its vote and was still told to have none',
  },
  {
    seed: 965_426,
    kind: 'replicaSets',
    showed:
      'a primary that was to be hidden waited for a member that had lost what it was sent, and both stood still',
  },
  {
    seed: 969_767,
    kind: 'replicaSets',
    showed: 'a member was restarted that had been elected while the control plane slept',
  },
  {
    seed: 971_484,
    kind: 'replicaSets',
    showed: 'a secondary was restarted by the first of many late readings, and had been elected since',
  },
  {
    seed: 640_291,
    kind: 'sharded',
    showed: 'a shard was taken back whose members were being placed while no control plane was there to tell',
  },
  {
    seed: 603_700,
    kind: 'sharded',
    showed: 'a router that did not come up with its configuration got a binary before the config servers',
  },
  {
    seed: 605_078,
    kind: 'sharded',
    showed: 'a router that was down for its configuration got the older binary before the config servers',
  },
  {
    seed: 606_003,
    kind: 'sharded',
    showed: 'a grant was judged by a vote that somebody had just taken away',
  },
  {
    seed: 609_213,
    kind: 'sharded',
    showed: 'the only router that served was restarted for its first configuration, whose answer was lost',
  },
  {
    seed: 609_319,
    kind: 'sharded',
    showed: 'a router waited to leave until one counted no more whose runtime was gone',
  },
  {
    seed: 615_031,
    kind: 'sharded',
    showed: 'routers were given no config server while the runtime of the only one was made anew',
  },
  {
    seed: 620_800,
    kind: 'sharded',
    showed: 'routers began with the binary of a config server that was on its way out, and could not start',
  },
  {
    seed: 620_065,
    kind: 'sharded',
    showed: 'the last router waited for one to serve meanwhile that was leaving and had never run',
  },
  {
    seed: 3083,
    kind: 'replicaSets',
    showed:
      'what a forgotten import had made lost its runtime, and its member was made anew beside the volume',
  },
  {
    seed: 621_729,
    kind: 'sharded',
    showed:
      'a member of a shard that was killed while it restarted got the older binary before the config servers',
  },
  {
    seed: 622_785,
    kind: 'sharded',
    showed: 'a person switched the balancer on between two stops whose answers were lost, and it stayed off',
  },
  {
    seed: 623_218,
    kind: 'sharded',
    showed:
      'a start of the balancer without an answer went on under its id after a stop, and was answered from memory',
  },
  {
    seed: 633_604,
    kind: 'sharded',
    showed: 'a second router was wanted while an operation waited for what the only one could not be given',
  },
  {
    seed: 635_384,
    kind: 'sharded',
    showed: 'a start of the balancer got no answer, and members were restarted while it ran',
  },
  {
    seed: 637_325,
    kind: 'sharded',
    showed:
      'a stop of the balancer that was sent again was answered from memory, and a person had switched it on since',
  },
  {
    seed: 16_758,
    kind: 'replicaSets',
    showed:
      'a member was upgraded while its runtime was still being removed for a suspension that was taken back',
  },
  {
    seed: 641_653,
    kind: 'sharded',
    showed: 'a doubled command waited in its member’s queue and landed after one of the next holder',
  },
  {
    seed: 646_514,
    kind: 'sharded',
    showed: 'an agent that came back went on stopping a member after a person had taken another one’s vote',
  },
  {
    seed: 655_388,
    kind: 'sharded',
    showed:
      'a shard was registered while a replaced member with an older binary still heard of its new version',
  },
  {
    seed: 21_700,
    kind: 'replicaSets',
    showed:
      'one that was being stopped got a newer configuration after a person had taken another one’s vote',
  },
  {
    seed: 660_419,
    kind: 'sharded',
    showed: 'a router listed a shard that only one config server had, and that was rolled back with it',
  },
  {
    seed: 677_494,
    kind: 'sharded',
    showed: 'an import that was late took the port of a member that was coming back to its place',
  },
  {
    seed: 678_282,
    kind: 'sharded',
    showed: 'a person switched the balancer on a config server whose words were rolled back',
  },
  {
    seed: 801_213,
    kind: 'sharded',
    showed:
      'a first router began with the binary of a set that was no shard yet, too old for the data of the config servers',
  },
  {
    seed: 808_079,
    kind: 'sharded',
    showed: 'a person switched the balancer on between two stops that got no answer',
  },
  {
    seed: 818_178,
    kind: 'sharded',
    showed:
      'a set became a shard while another binary was still on its way to a member, which restarted later',
  },
];
