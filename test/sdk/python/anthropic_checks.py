"""The real anthropic package against the gateway."""

import anthropic
import stage
from contract import Contract
from stage import ALICE, GATEWAY, TLS, UPSTREAM, UPSTREAM_KEY, Check

ASK = [{"role": "user", "content": "say it"}]


def helper(client, model):
    with client.messages.stream(model=model, max_tokens=64, messages=ASK) as stream:
        return ["".join(stream.text_stream), stream.get_final_message().model_dump()]


# What a client gets of every operation, asked as its users ask.
OPERATIONS = {
    "messages": lambda c, m: c.messages.create(model=m, max_tokens=64, messages=ASK).model_dump(),
    "messages_stream": lambda c, m: [
        event.model_dump() for event in c.messages.create(model=m, max_tokens=64, messages=ASK, stream=True)
    ],
    "messages_stream_helper": helper,
    "count_tokens": lambda c, m: c.messages.count_tokens(model=m, messages=ASK).model_dump(),
}


class Anthropic(Contract, Check):
    sdk = anthropic

    def client(self, key):
        http = anthropic.DefaultHttpxClient(verify=TLS, event_hooks={"request": [self.hook]})
        client = anthropic.Anthropic(base_url=GATEWAY, api_key=key, http_client=http)
        self.addCleanup(client.close)
        return client

    def async_client(self, key):
        http = anthropic.DefaultAsyncHttpxClient(verify=TLS, event_hooks={"request": [self.async_hook]})
        return anthropic.AsyncAnthropic(base_url=GATEWAY, api_key=key, http_client=http)

    def api(self, client):
        return client.messages

    def params(self, model):
        return {"model": model, "max_tokens": 64, "messages": ASK}

    def text(self, message):
        return message.content[0].text

    def pieces(self, events):
        return "".join(e.delta.text for e in events if e.type == "content_block_delta")

    def check_replayed_stream(self, sse):
        names = [line.removeprefix("event: ") for line in sse.splitlines() if line.startswith("event: ")]
        self.assertEqual(names[0], "message_start")
        self.assertEqual(names[-2:], ["message_delta", "message_stop"])
        self.assertIn('"output_tokens":7', sse)

    def test_2_overloaded_for_ever_is_asked_once(self):
        model = self.model({"status": 529})
        with self.assertRaises(anthropic.APIStatusError) as caught:
            self.client(ALICE).messages.create(**self.params(model))
        self.assertEqual(caught.exception.status_code, 529)
        self.assertSent(1)
        self.assertCalls(model, 3)


def same_as_direct(operation):
    def check(self):
        model = self.our_model()
        http = anthropic.DefaultHttpxClient(verify=TLS)
        with anthropic.Anthropic(base_url=UPSTREAM, api_key=UPSTREAM_KEY, http_client=http) as client:
            direct, asked = operation(client, model), self.calls(model)
        self.script(model)
        self.assertEqual(operation(self.client(ALICE), model), direct)
        self.assertSent(1)
        (through,) = self.calls(model)
        for field in ("path", "body"):
            self.assertEqual(through[field], asked[0][field])
        for header in ("Anthropic-Version", "Anthropic-Beta"):
            self.assertEqual(through["header"].get(header), asked[0]["header"].get(header))

    return check


for name, operation in OPERATIONS.items():
    setattr(Anthropic, f"test_1_same_as_direct_{name}", same_as_direct(operation))

if __name__ == "__main__":
    stage.run("anthropic", Anthropic)
