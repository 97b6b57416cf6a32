import os
from typing import Annotated

import requests
from langchain_core.tools import InjectedToolCallId, tool


@tool
def pay(ref: str, amount: float, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Pays an order."""
    response = requests.post(
        os.environ["ONCEGATE_URL"] + "/tools/payments/payments",
        headers={"Authorization": "Bearer " + os.environ["ONCEGATE_KEY"], "Idempotency-Key": tool_call_id},
        json={"ref": ref, "amount": amount},
    )
    return response.text  # of an error too: it tells the model what is known
