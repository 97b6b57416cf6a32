import os

import requests
from agents import function_tool
from agents.tool_context import ToolContext


@function_tool
def pay(context: ToolContext, ref: str, amount: float) -> str:
    """Pays an order."""
    response = requests.post(
        os.environ["ONCEGATE_URL"] + "/tools/payments/payments",
        headers={"Authorization": "Bearer " + os.environ["ONCEGATE_KEY"], "Idempotency-Key": context.tool_call_id},
        json={"ref": ref, "amount": amount},
    )
    return response.text  # of an error too: it tells the model what is known
