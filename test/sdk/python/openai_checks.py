"""The real openai package against the gateway."""

import json

import openai
import stage
from contract import Contract
from stage import ALICE, GATEWAY, TLS, UPSTREAM, UPSTREAM_KEY, Check

ASK = [{"role": "user", "content": "say it"}]
TONE = ("tone.wav", b"RIFF" + bytes(range(256)) * 8, "audio/wav")


def streamed(events):
    return [event.model_dump() for event in events]


# What a client gets of every operation, asked as its users ask.
OPERATIONS = {
    "chat": lambda c, m: c.chat.completions.create(model=m, messages=ASK).model_dump(),
    "chat_stream": lambda c, m: streamed(c.chat.completions.create(model=m, messages=ASK, stream=True)),
    "chat_stream_with_usage": lambda c, m: streamed(
        c.chat.completions.create(model=m, messages=ASK, stream=True, stream_options={"include_usage": True})
    ),
    "completions": lambda c, m: c.completions.create(model=m, prompt="say it").model_dump(),
    "completions_stream": lambda c, m: streamed(c.completions.create(model=m, prompt="say it", stream=True)),
    "responses": lambda c, m: c.responses.create(model=m, input="say it").model_dump(),
    "responses_stream": lambda c, m: streamed(c.responses.create(model=m, input="say it", stream=True)),
    "embeddings": lambda c, m: c.embeddings.create(model=m, input=["one", "two"]).model_dump(),
    "embeddings_as_numbers": lambda c, m: c.embeddings.create(
        model=m, input=["one", "two"], encoding_format="float"
    ).model_dump(),
    "moderations": lambda c, m: c.moderations.create(model=m, input="say it").model_dump(),
    "images": lambda c, m: c.images.generate(model=m, prompt="a fox").model_dump(),
    "speech": lambda c, m: c.audio.speech.create(model=m, voice="alloy", input="say it").content,
    "transcriptions": lambda c, m: c.audio.transcriptions.create(model=m, file=TONE).model_dump(),
    "transcriptions_as_text": lambda c, m: c.audio.transcriptions.create(model=m, file=TONE, response_format="text"),
    "transcriptions_stream": lambda c, m: streamed(c.audio.transcriptions.create(model=m, file=TONE, stream=True)),
}


class OpenAI(Contract, Check):
    sdk = openai

    def client(self, key):
        http = openai.DefaultHttpx2Client(verify=TLS, event_hooks={"request": [self.hook]})
        client = openai.OpenAI(base_url=GATEWAY + "/v1", api_key=key, http_client=http)
        self.addCleanup(client.close)
        return client

    def async_client(self, key):
        http = openai.DefaultAsyncHttpx2Client(verify=TLS, event_hooks={"request": [self.async_hook]})
        return openai.AsyncOpenAI(base_url=GATEWAY + "/v1", api_key=key, http_client=http)

    def api(self, client):
        return client.chat.completions

    def params(self, model):
        return {"model": model, "messages": ASK}

    def text(self, message):
        return message.choices[0].message.content

    def pieces(self, events):
        return "".join(e.choices[0].delta.content or "" for e in events if e.choices)

    def raw_stream(self, client, model, **options):
        return super().raw_stream(client, model, stream_options={"include_usage": True}, **options)

    def check_replayed_stream(self, sse):
        chunks = [json.loads(line.removeprefix("data: ")) for line in sse.split("\n\n")[:-2]]
        self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["total_tokens"], 18)
        self.assertTrue(sse.endswith("\n\ndata: [DONE]\n\n"))

    def test_models(self):
        client = openai.OpenAI(base_url=GATEWAY + "/v1", api_key=ALICE)
        self.addCleanup(client.close)
        self.assertIn("configured-model", [model.id for model in client.models.list()])
        self.assertEqual(client.models.retrieve("configured-model").id, "configured-model")

    def test_a_configured_model_is_renamed_upstream(self):
        self.script("upstream-name")
        answer = self.client(ALICE).chat.completions.create(model="configured-model", messages=ASK)
        self.assertIn("and done.", self.text(answer))
        self.assertCalls("upstream-name", 1)

    def test_6_a_response_stream_without_its_end(self):
        model, events = self.our_model({"break": "end", "events": 9}), []
        with self.assertRaises(openai.APIError):
            for event in self.client(ALICE).responses.create(model=model, input="say it", stream=True):
                events.append(event)
        self.assertEqual(events[0].type, "response.created")
        self.assertSent(1)
        self.assertCalls(model, 1)

    def test_6_speech_cut_short_is_never_taken_for_whole(self):
        # Audio has no end of its own: only a broken connection tells. The SDK then asks again.
        model = self.our_model({"break": "reset", "events": 2}, {})
        audio = self.client(ALICE).audio.speech.create(model=model, voice="alloy", input="say it")
        self.assertEqual(len(audio.content), 64 * 1024)
        self.assertSent(2)
        self.assertCalls(model, 2)


def same_as_direct(operation):
    def check(self):
        model = self.our_model()
        http = openai.DefaultHttpx2Client(verify=TLS)
        with openai.OpenAI(base_url=UPSTREAM + "/v1", api_key=UPSTREAM_KEY, http_client=http) as client:
            direct, asked = operation(client, model), self.calls(model)
        self.script(model)
        self.assertEqual(operation(self.client(ALICE), model), direct)
        self.assertSent(1)
        (through,) = self.calls(model)
        self.assertEqual(through["path"], asked[0]["path"])
        if "--" in asked[0]["body"][:2]:
            return  # multipart: each try has a boundary of its own
        if through["body"] != asked[0]["body"]:  # the one edit that is allowed
            body = json.loads(asked[0]["body"])
            self.assertTrue(body["stream"])
            self.assertNotIn("stream_options", body)
            body["stream_options"] = {"include_usage": True}
            self.assertEqual(json.loads(through["body"]), body)

    return check


for name, operation in OPERATIONS.items():
    setattr(OpenAI, f"test_1_same_as_direct_{name}", same_as_direct(operation))

if __name__ == "__main__":
    stage.run("openai", OpenAI)
