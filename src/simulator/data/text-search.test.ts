import { expect, test } from 'vitest';
import { openMemoryStore } from './store.ts';
import { contextWithClock, refused } from './test-values.ts';

function shop(index = true) {
  const store = openMemoryStore();
  const clock = contextWithClock();
  const texts = ['spam eggs and spam', 'Spam', 'an egg, sausage and bacon', 'Crème brûlée', 'nothing'];
  for (const [_id, t] of texts.entries()) store.insert('db.c', { _id, t, n: { deep: ['toast'] } }, clock);
  if (index) store.createIndexes('db.c', [{ key: { t: 'text' }, name: 't_text' }], clock);
  const ids = (search: string, more = {}) =>
    store.find('db.c', { filter: { $text: { $search: search, ...more } } }).map(({ _id }) => Number(_id));
  return { store, clock, ids };
}

test('$text finds any of the words, in their forms, whatever their case and accents', () => {
  const { ids } = shop();
  expect(ids('spam')).toEqual([0, 1]);
  expect(ids('EGGS')).toEqual([0, 2]);
  expect(ids('creme')).toEqual([3]);
  expect(ids('bacon brulee')).toEqual([2, 3]);
  expect(ids('Spam', { $caseSensitive: true })).toEqual([1]);
  expect(ids('the and')).toEqual([]);
});

test('phrases must be there, words with a minus must not', () => {
  const { ids } = shop();
  expect(ids('spam -eggs')).toEqual([1]);
  expect(ids('"spam eggs"')).toEqual([0]);
});

test('the score is projected and sorted by, in finds and pipelines', () => {
  const { store } = shop();
  const score = { $meta: 'textScore' };
  const filter = { $text: { $search: 'spam' } };
  const found = store.find('db.c', { filter, projection: { score }, sort: { score } });
  expect(found.map(({ _id }) => Number(_id))).toEqual([0, 1]);
  expect(Number(found[0]!['score'])).toBeGreaterThan(Number(found[1]!['score']));
  const pipeline = [{ $match: filter }, { $sort: { score } }, { $project: { score } }];
  const [first] = store.aggregate('db.c', 'db', pipeline);
  expect(first).toEqual({ _id: found[0]!['_id'], score: found[0]!['score'] });
});

test('a wildcard index searches every string; without an index there is none to search', () => {
  const { store, clock, ids } = shop(false);
  expect(refused(() => ids('toast')).code).toBe(27);
  store.createIndexes('db.c', [{ key: { '$**': 'text' }, name: 'all' }], clock);
  expect(ids('toast')).toHaveLength(5);
  expect(refused(() => store.find('db.c', { filter: { $text: { $search: 5 } } })).code).toBe(14);
});
