"""The real openai-agents package against the gateway."""

import agents_pay
import openai
import stage
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from framework_contract import ChatStreams, FrameworkContract, ResponseStreams, Writes, pay_keyless
from stage import Check

set_tracing_disabled(True)  # traces go to a vendor


@function_tool(name_override="pay")
def pay_by_fields(ref: str, amount: float) -> str:
    return pay_keyless(ref, amount)


class Agents(FrameworkContract, Writes):
    pay, pay_by_fields = agents_pay.pay, pay_by_fields

    async def work(self, call, tool):
        return await self.stream(call, [], [tool])

    def agent(self, call, tools=()):
        client = openai.AsyncOpenAI(http_client=call.http, **call.client)
        settings = ModelSettings(extra_headers=call.headers, include_usage=True)
        model = self.model_class(model=call.model, openai_client=client)
        return Agent(name="payer", instructions="pay", model=model, model_settings=settings, tools=list(tools))

    async def ask(self, call):
        return (await Runner.run(self.agent(call), call.prompt)).final_output

    async def stream(self, call, pieces, tools=()):
        result = Runner.run_streamed(self.agent(call, tools), call.prompt)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                pieces.append(event.data.delta)
        return result.final_output

    def pay_in_memory(self, model):
        """The output of a run with a tool, which appends to self.paid."""
        self.paid = []

        @function_tool
        def pay(amount: float) -> str:
            self.paid.append(amount)
            return "paid"

        return self.one(lambda call: self.stream(call, [], [pay]), model)

    def test_6_a_stream_that_ends_after_a_tool_call_runs_no_tool(self):
        model = self.our_model({"tool": "pay", "break": "end", "events": self.events_of_tool_call})
        with self.assertRaises(openai.APIError):
            self.pay_in_memory(model)
        self.assertEqual(self.paid, [])
        self.assertSent(1)
        self.assertCalls(model, 1)

    def test_6_a_whole_tool_call_runs_its_tool_once(self):
        model = self.our_model({"tool": "pay"}, {})
        self.assertRegex(self.pay_in_memory(model), "and done.$")
        self.assertEqual(self.paid, [5])
        self.assertSent(2)
        self.assertCalls(model, 2)


class Chat(Agents, ChatStreams, Check):
    model_class, events_of_tool_call = OpenAIChatCompletionsModel, 2


class Responses(Agents, ResponseStreams, Check):
    model_class, events_of_tool_call = OpenAIResponsesModel, 5

    def test_1_by_the_environment(self):
        self.check_by_environment(lambda model: Runner.run_sync(Agent(name="sayer", model=model), "say it").final_output)


if __name__ == "__main__":
    stage.run("openai-agents", Chat, Responses)
