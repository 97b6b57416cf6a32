// payments.mjs
import { z } from 'zod';

const { ONCEGATE_URL, ONCEGATE_KEY } = process.env; // http://127.0.0.1:8080, and one of its keys

export const payment = z.object({ ref: z.string(), amount: z.number() });

export async function pay(order, toolCallId) {
  const response = await fetch(`${ONCEGATE_URL}/tools/payments/payments`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${ONCEGATE_KEY}`, 'Content-Type': 'application/json', 'Idempotency-Key': toolCallId },
    body: JSON.stringify(order),
  });
  return response.text(); // of an error too: it tells the model what is known
}
