// @openai/agents
import { tool } from '@openai/agents';
import { pay, payment } from './payments.mjs';

export default tool({
  name: 'pay', description: 'Pays an order.', parameters: payment,
  execute: (input, context, { toolCall }) => pay(input, toolCall.callId),
});
