// A lint rule for product code and tools: an error is logged or thrown on. So `catch` names its error, and a handler of
// `.catch()` takes it.

const isFunction = (node) => node?.type === 'ArrowFunctionExpression' || node?.type === 'FunctionExpression';

const namedErrors = {
  create: (context) => ({
    CatchClause(node) {
      if (node.param === null) context.report({ node, message: 'Name the error and use it.' });
    },
    CallExpression(node) {
      const [handler] = node.arguments;
      const isCatch = node.callee.type === 'MemberExpression' && node.callee.property.name === 'catch';
      if (isCatch && isFunction(handler) && handler.params.length === 0) {
        context.report({ node: handler, message: 'Take the error and use it.' });
      }
    },
  }),
};

export default { meta: { name: 'latchwork' }, rules: { 'named-errors': namedErrors } };
