/** Boolean, comparison and conditional operators. */
import { Int32 } from 'bson';
import { isDocument, isTruthy } from './bson.ts';
import { compareValues } from './compare.ts';
import {
  type Evaluator,
  isNullish,
  located,
  namedOperands,
  type OperatorCompiler,
  type OperatorTable,
  strict,
} from './expr-types.ts';

const comparison = (holds: (order: number) => boolean): OperatorCompiler =>
  strict(2, 2, ([left, right], scope) => holds(compareValues(left, right, scope.collator)));

/** `$and` and `$or` stop at the first that decides. */
const shortCircuit =
  (decisive: boolean): OperatorCompiler =>
  (operand, compile) => {
    const parts = (Array.isArray(operand) ? operand : [operand]).map(compile);
    return (scope) => (parts.some((part) => isTruthy(part(scope)) === decisive) ? decisive : !decisive);
  };

const compileCond: OperatorCompiler = (operand, compile, name) => {
  let parts: unknown[];
  if (isDocument(operand)) {
    const fields = namedOperands(operand, name, ['if', 'then', 'else'], []);
    parts = [fields['if'], fields['then'], fields['else']];
  } else {
    parts = Array.isArray(operand) ? operand : [operand];
    if (parts.length !== 3) {
      throw located(16020, `Expression $cond takes exactly 3 arguments. ${parts.length} were passed in.`);
    }
  }
  const [test, yes, no] = parts.map(compile) as [Evaluator, Evaluator, Evaluator];
  return (scope) => (isTruthy(test(scope)) ? yes(scope) : no(scope));
};

const compileIfNull: OperatorCompiler = (operand, compile) => {
  if (!Array.isArray(operand) || operand.length < 2) {
    throw located(1257300, '$ifNull needs at least two arguments');
  }
  const parts = operand.map(compile);
  return (scope) => {
    for (const part of parts.slice(0, -1)) {
      const value = part(scope);
      if (!isNullish(value)) return value;
    }
    return parts.at(-1)!(scope);
  };
};

const compileSwitch: OperatorCompiler = (operand, compile) => {
  if (!isDocument(operand)) throw located(40060, '$switch requires an object as an argument');
  const branches: unknown = operand['branches'];
  if (!Array.isArray(branches)) throw located(40061, "$switch expected an array for 'branches'");
  if (branches.length === 0) throw located(40068, '$switch requires at least one branch');
  const cases = branches.map((branch): [Evaluator, Evaluator] => {
    if (!isDocument(branch)) throw located(40062, '$switch expected each branch to be an object');
    if (!('case' in branch)) throw located(40064, "$switch requires each branch have a 'case' expression");
    if (!('then' in branch)) throw located(40065, "$switch requires each branch have a 'then' expression.");
    return [compile(branch['case']), compile(branch['then'])];
  });
  const otherwise = 'default' in operand ? compile(operand['default']) : undefined;
  return (scope) => {
    for (const [test, then] of cases) if (isTruthy(test(scope))) return then(scope);
    if (otherwise) return otherwise(scope);
    throw located(
      40066,
      '$switch could not find a matching branch for an input, and no default was specified.',
    );
  };
};

export const LOGIC: OperatorTable = {
  $and: shortCircuit(false),
  $or: shortCircuit(true),
  $not: strict(1, 1, ([value]) => !isTruthy(value)),
  $cmp: strict(
    2,
    2,
    ([left, right], scope) => new Int32(Math.sign(compareValues(left, right, scope.collator))),
  ),
  $eq: comparison((order) => order === 0),
  $ne: comparison((order) => order !== 0),
  $gt: comparison((order) => order > 0),
  $gte: comparison((order) => order >= 0),
  $lt: comparison((order) => order < 0),
  $lte: comparison((order) => order <= 0),
  $cond: compileCond,
  $ifNull: compileIfNull,
  $switch: compileSwitch,
};
