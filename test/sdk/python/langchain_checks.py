"""The real langchain-openai package against the gateway."""

import langchain_pay
import stage
from framework_contract import Calls, ChatStreams, FrameworkContract, ResponseStreams, Writes, pay_keyless
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from stage import Check


@tool("pay")
def pay_by_fields(ref: str, amount: float) -> str:
    """Pays an order."""
    return pay_keyless(ref, amount)


class LangChain(FrameworkContract, Writes):
    responses = False
    pay, pay_by_fields = langchain_pay.pay, pay_by_fields

    def chat(self, call):
        return ChatOpenAI(
            model=call.model, http_async_client=call.http, use_responses_api=self.responses, stream_usage=True, **call.client
        )

    async def ask(self, call):
        return (await self.chat(call).ainvoke(call.prompt, extra_headers=call.headers)).text

    async def stream(self, call, pieces):
        async for chunk in self.chat(call).astream(call.prompt, extra_headers=call.headers):
            pieces.append(chunk.text)

    async def work(self, call, tool):
        model, messages = self.chat(call).bind_tools([tool]), [HumanMessage(call.prompt)]
        while True:
            answer = None
            async for chunk in model.astream(messages, extra_headers=call.headers):
                answer = answer + chunk if answer else chunk
            if not answer.tool_calls:
                return answer.text
            messages.append(answer)
            for tool_call in answer.tool_calls:
                messages.append(await tool.ainvoke(tool_call))


class Chat(LangChain, ChatStreams, Check):
    pass


class Responses(LangChain, ResponseStreams, Check):
    responses = True


class Others(Calls, Check):
    """The operations besides chat and responses."""

    def test_1_by_the_environment(self):
        self.check_by_environment(lambda model: ChatOpenAI(model=model).invoke("say it").text)

    def test_1_completions(self):
        async def complete(call):
            return await OpenAI(model=call.model, http_async_client=call.http, **call.client).ainvoke(call.prompt)

        self.check_same_as_direct(complete, ours=True)

    def test_1_embeddings(self):
        async def embed(call):
            # The token count that it would do first needs a download.
            embeddings = OpenAIEmbeddings(
                model=call.model, http_async_client=call.http, check_embedding_ctx_length=False, **call.client
            )
            return await embeddings.aembed_documents(["one", "two"])

        self.check_same_as_direct(embed)


if __name__ == "__main__":
    stage.run("langchain-openai", Chat, Responses, Others)
