import type { Document } from 'bson';
import { expect, test } from 'vitest';
import { ServerError } from '../contracts.ts';
import { canonicalDocument, plain } from './bson.ts';
import { compileFilter } from './match.ts';
import { compileProjection } from './project.ts';

const document = { _id: 1, a: 1, b: { c: 1, d: 2 }, e: [{ x: 1, y: 1 }, { x: 2, y: 2 }, 5], n: [1, 2, 3, 4] };

function project(projection: Document, filter: Document = {}, find = true): Document {
  const details = {};
  compileFilter(canonicalDocument(filter))(canonicalDocument(document), details);
  const apply = compileProjection(canonicalDocument(projection), { find });
  return plain(apply(canonicalDocument(document), details)) as Document;
}

test.each<[string, Document, Document]>([
  ['inclusion keeps the id', { a: 1 }, { _id: 1, a: 1 }],
  ['inclusion without id', { a: 1, _id: 0 }, { a: 1 }],
  ['inclusion inside', { 'b.c': 1, _id: 0 }, { b: { c: 1 } }],
  ['inclusion in array elements drops scalars', { 'e.x': 1, _id: 0 }, { e: [{ x: 1 }, { x: 2 }] }],
  ['exclusion', { e: 0, n: 0, b: 0 }, { _id: 1, a: 1 }],
  [
    'exclusion in array elements keeps scalars',
    { _id: 0, a: 0, b: 0, n: 0, 'e.y': 0 },
    { e: [{ x: 1 }, { x: 2 }, 5] },
  ],
  ['only the id away', { _id: 0 }, { a: 1, b: { c: 1, d: 2 }, e: document.e, n: document.n }],
  ['only the id', { _id: 1 }, { _id: 1 }],
  ['sub-documents as projections', { b: { d: 1 }, _id: 0 }, { b: { d: 2 } }],
  ['expressions', { _id: 0, sum: { $add: ['$a', '$b.d'] } }, { sum: 3 }],
  ['$slice with inclusion', { _id: 0, a: 1, n: { $slice: -2 } }, { a: 1, n: [3, 4] }],
  ['$slice with skip', { _id: 0, a: 0, b: 0, e: 0, n: { $slice: [1, 2] } }, { n: [2, 3] }],
  ['$elemMatch', { _id: 0, e: { $elemMatch: { x: 2 } } }, { e: [{ x: 2, y: 2 }] }],
  ['missing fields stay missing', { _id: 0, zzz: 1, a: 1 }, { a: 1 }],
])('SIM projections: %s', (_title, projection, result) => {
  expect(project(projection)).toEqual(result);
});

test('SIM the positional projection shows the element that matched', () => {
  expect(project({ 'e.$': 1, _id: 0 }, { 'e.x': 2 })).toEqual({ e: [{ x: 2, y: 2 }] });
});

test('SIM included fields come in the order of the document, computed ones after', () => {
  expect(Object.keys(project({ z: { $literal: 1 }, b: 1, a: 1 }))).toEqual(['_id', 'a', 'b', 'z']);
});

test.each<[Document, number]>([
  [{ a: 1, b: 0 }, 31254],
  [{ a: 0, b: 1 }, 31253],
  [{ b: 1, 'b.c': 1 }, 31249],
  [{ 'b.c': 1, b: 1 }, 31250],
  [{ '': 1 }, 40352],
  [{ a: { $nope: 1 } }, 168],
])('SIM projection %j is refused with %i', (projection, code) => {
  try {
    project(projection);
  } catch (error) {
    expect((error as ServerError).code).toBe(code);
    return;
  }
  throw new ServerError(0, '', 'not refused');
});
