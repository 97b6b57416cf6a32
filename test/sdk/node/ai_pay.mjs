// ai
import { tool } from 'ai';
import { pay, payment } from './payments.mjs';

export default tool({
  description: 'Pays an order.', inputSchema: payment,
  execute: (input, { toolCallId }) => pay(input, toolCallId),
});
