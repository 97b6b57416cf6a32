// LangChain
import { tool } from '@langchain/core/tools';
import { pay, payment } from './payments.mjs';

export default tool((input, { toolCall }) => pay(input, toolCall.id), {
  name: 'pay', description: 'Pays an order.', schema: payment,
});
