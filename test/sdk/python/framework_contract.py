"""The promises of the gateway to frameworks, which hide what a call was made
of: they are held against what came out and what both ends counted."""

import asyncio
import json
import os
import unittest.mock
import uuid
from dataclasses import dataclass

import httpx2
import openai
import requests
from stage import AIMOCK, ALICE, BOB, GATEWAY, TLS, UPSTREAM, UPSTREAM_KEY

SLOW = {"delay": 1000}  # long enough for a second call to come in


class Wire(httpx2.AsyncHTTPTransport):
    """Keeps what a client sent to the gateway and what it got."""

    def __init__(self, sent, answers):
        super().__init__(verify=TLS)
        self.sent, self.answers = sent, answers

    async def handle_async_request(self, request):
        self.sent.append(request)
        response = await super().handle_async_request(request)
        response.stream = Answer(response.stream, response.headers)
        self.answers.append(response.stream)
        return response


class Answer(httpx2.AsyncByteStream):
    def __init__(self, stream, headers):
        self.stream, self.headers, self.body = stream, headers, b""

    async def __aiter__(self):
        async for piece in self.stream:
            self.body += piece
            yield piece

    async def aclose(self):
        await self.stream.aclose()


@dataclass
class Call:
    """One call, and the SDK's client that makes it."""

    client: dict  # the arguments of openai.AsyncOpenAI, but http_client
    http: httpx2.AsyncClient
    model: str
    prompt: str
    headers: dict


class Calls:
    """Mixed into a Check: calls that coroutine functions of a Call make."""

    def setUp(self):
        super().setUp()
        self.answers = []  # what the gateway answered, in order

    def run_calls(self, *makers):
        """The results of the calls that makers make, all at the same time."""

        async def gather():
            return await asyncio.gather(*(make() for make in makers))

        return asyncio.run(gather())

    def call(self, make, model, *, key=ALICE, url=GATEWAY, prompt="say it", headers=None, **client):
        """A maker of what make makes of one call, by a client of its own."""

        async def made():
            wire = {"transport": Wire(self.sent, self.answers)} if url == GATEWAY else {"verify": TLS}
            async with openai.DefaultAsyncHttpx2Client(**wire) as http:
                arguments = {"base_url": url + "/v1", "api_key": key, **client}
                return await make(Call(arguments, http, model, prompt, headers or {}))

        return made

    def one(self, *args, **options):
        (result,) = self.run_calls(self.call(*args, **options))
        return result

    def check_same_as_direct(self, operation, ours=False):
        model = self.our_model() if ours else self.model()
        want = self.one(operation, model, url=UPSTREAM if ours else AIMOCK, key=UPSTREAM_KEY)
        asked = self.calls(model)
        self.script(model)
        have = self.one(operation, model)
        self.assertGreater(len(str(want)), 10)
        self.assertEqual(have, want)
        self.assertSent(1)
        self.assertCalls(model, 1)
        self.assertEqual(self.calls(model)[0]["path"], asked[0]["path"])

    def check_by_environment(self, ask):
        """The variables that vendors document are enough: ask(model) makes a client without options."""
        model = self.model()
        with unittest.mock.patch.dict(os.environ, OPENAI_BASE_URL=GATEWAY + "/v1", OPENAI_API_KEY=ALICE):
            self.assertRegex(ask(model), "and done.$")
        self.sent.append(None)  # there was no transport to count by
        self.assertCalls(model, 1)


class FrameworkContract(Calls):
    """Mixed into a Check. The framework's class gives these:

    ask(call)                   the text of an answer
    stream(call, pieces)        appends the pieces of a streamed answer's text
    check_replayed_stream(sse)  looks at a stream as it came from the gateway
    """

    def two(self, model, other=None, **options):
        return self.run_calls(self.call(self.ask, model, **options), self.call(self.ask, model, **options, **other or {}))

    def outcomes(self):
        return sorted(answer.headers["oncegate-outcome"] for answer in self.answers)

    def test_1_same_as_direct(self):
        self.check_same_as_direct(self.ask)

    def test_1_same_as_direct_stream(self):
        async def text(call):
            pieces = []
            await self.stream(call, pieces)
            return "".join(pieces)

        self.check_same_as_direct(text)

    def test_2_two_503_are_hidden(self):
        model = self.model({"status": 503}, {"status": 503}, {})
        self.assertRegex(self.one(self.ask, model), "and done.$")
        self.assertSent(1)
        self.assertCalls(model, 3)

    def test_2_503_for_ever_is_asked_once(self):
        model = self.model({"status": 503})
        with self.assertRaisesRegex(openai.APIStatusError, "scripted 503"):
            self.one(self.ask, model)
        self.assertEqual(self.answers[0].headers["x-should-retry"], "false")
        self.assertSent(1)
        self.assertCalls(model, 3)

    def test_3_keyed_calls_at_once_and_later(self):
        model, key = self.model(SLOW), {"Idempotency-Key": str(uuid.uuid4())}
        one, two = self.two(model, headers=key)
        self.assertEqual(one, two)
        self.assertEqual(self.one(self.ask, model, headers=key), one)
        self.assertEqual(self.outcomes(), ["coalesced", "executed", "replayed"])
        self.assertEqual(len({answer.body for answer in self.answers}), 1, [answer.body for answer in self.answers])
        self.assertSent(3)
        self.assertCalls(model, 1)

    def test_3_a_key_with_another_body(self):
        model, key = self.model(), {"Idempotency-Key": str(uuid.uuid4())}
        self.one(self.ask, model, headers=key)
        with self.assertRaises(openai.UnprocessableEntityError):
            self.one(self.ask, model, headers=key, prompt="say that")
        self.assertEqual(self.answers[-1].headers["oncegate-reason"], "key_reused")
        self.assertSent(2)
        self.assertCalls(model, 1)

    def test_4_a_retry_after_a_time_out_joins(self):
        model = self.model({"delay": 2500}, {})
        self.assertRegex(self.one(self.ask, model, timeout=1.0), "and done.$")
        self.assertGreaterEqual(len(self.sent), 2, "no retry")
        self.assertCalls(model, 1)

    def test_5_twins_share_one_call(self):
        model = self.model(SLOW)
        one, two = self.two(model)
        self.assertEqual(one, two)
        self.assertEqual(self.outcomes(), ["coalesced", "executed"])
        self.assertSent(2)
        self.assertCalls(model, 1)

    def test_5_two_clients_share_nothing(self):
        model = self.model(SLOW)
        one, two = self.two(model, {"key": BOB})
        self.assertNotEqual(one, two)
        self.assertSent(2)
        self.assertCalls(model, 2)

    def test_5_a_delivered_answer_is_not_repeated(self):
        model = self.model()
        self.assertNotEqual(self.one(self.ask, model), self.one(self.ask, model))
        self.assertSent(2)
        self.assertCalls(model, 2)

    def streamed(self, model, pieces=None, **options):
        """The pieces of a stream, which are in pieces too if it breaks."""
        pieces = [] if pieces is None else pieces
        self.one(lambda call: self.stream(call, pieces), model, **options)
        return pieces

    def check_one_whole_stream(self, model):
        self.assertRegex("".join(self.streamed(model)), "and done.$")
        self.assertSent(1)
        self.assertCalls(model, 2)

    def test_6_a_stream_reset_before_its_status(self):
        self.check_one_whole_stream(self.model({"break": "connection"}, {}))

    def test_6_a_stream_reset_before_its_first_event(self):
        self.check_one_whole_stream(self.our_model({"break": "headers"}, {}))

    def check_cut_stream(self, model):
        """A cut stream raises after what came; it isn't kept, so its key runs again."""
        key, pieces = {"Idempotency-Key": str(uuid.uuid4())}, []
        with self.assertRaises(openai.APIError):
            self.streamed(model, pieces, headers=key)
        self.assertRegex("".join(pieces), "^To ")
        self.assertNotRegex("".join(pieces), "and done.$")
        self.assertSent(1)
        self.assertCalls(model, 1)
        self.assertRegex("".join(self.streamed(model, headers=key)), "and done.$")
        self.assertCalls(model, 2)

    def test_6_a_stream_that_ends_without_a_finish(self):
        self.check_cut_stream(self.our_model({"break": "end", "events": 8}, {}))

    def test_6_a_stream_reset_in_its_middle(self):
        self.check_cut_stream(self.model({"break": "reset", "events": 8}, {}))

    def test_7_a_keyed_stream_is_replayed(self):
        model, key = self.model(), {"Idempotency-Key": str(uuid.uuid4())}
        first, again = self.streamed(model, headers=key), self.streamed(model, headers=key)
        self.assertGreater(len(first), 5)
        self.assertEqual(again, first)
        one, two = self.answers
        self.assertEqual(two.body, one.body)
        self.assertEqual(two.headers["idempotent-replayed"], "true")
        self.assertSent(2)
        self.assertCalls(model, 1)
        self.check_replayed_stream(two.body.decode())


AGAIN = {"Oncegate-Retry": "1"}
PLAN = "say it"  # what every call has: nothing more is wanted of it


class Writes(Calls):
    """Mixed into a Check: group 8. The framework's class gives these:

    work(call, tool)  the text that an agent with the tool pay ends with; its model is asked in streams
    pay               that tool, as its file has it: its key is the id of the tool call
    pay_by_fields     the same without a key, made of pay_keyless
    """

    def setUp(self):
        super().setUp()
        self.ref = None  # the order that is paid, which scripts the API

    def paying(self, *steps):
        """The step of a model that pays an order, whose API answers by these steps."""
        self.ref = self.our_model(*steps)
        return {"tool": "pay", "arguments": {"ref": self.ref, "amount": 5}}

    def work_with(self, tool, model, **options):
        return self.one(lambda call: self.work(call, tool), model, **options)

    def check_asked(self, model, *asked):
        """What each call for model asked, and that the two requests of the tool were one payment."""
        self.sent += [None, None]  # by the tool, which has a client of its own
        self.assertCalls(self.ref, 1)
        calls = self.calls(model)
        self.assertEqual(len(calls), len(asked))
        for call, text in zip(calls, asked):
            self.assertRegex(json.dumps(call["body"]), text)
        return [call["body"] for call in calls]

    def test_8_a_run_that_failed_after_its_write_run_again(self):
        pays = self.paying()
        model = self.model(pays, {"break": "reset", "events": 8}, pays)
        with self.assertRaises(openai.APIError):
            self.work_with(self.pay, model)
        self.assertCalls(self.ref, 1)
        self.assertRegex(self.work_with(self.pay, model, headers=AGAIN), "and done.$")
        told = f"call-{model}-1.*pay-{self.ref}-1"
        _, failed, finished = self.check_asked(model, PLAN, told, told)
        self.assertEqual(finished, failed)
        self.assertEqual([a.headers["oncegate-outcome"] for a in self.answers], ["executed", "executed", "replayed", "executed"])

    def test_8_a_write_whose_answer_is_lost(self):
        model = self.model(self.paying({"break": "connection"}))
        end = self.work_with(self.pay, model)
        self.assertRegex(end, "and done.$")
        self.assertEqual(self.work_with(self.pay, model, headers=AGAIN), end)
        self.check_asked(model, PLAN, "idempotency_outcome_unknown")

    def test_8_a_write_that_the_model_planned_anew(self):
        model = self.model(self.paying())
        for _ in range(2):
            self.assertRegex(self.work_with(self.pay_by_fields, model), "and done.$")
        told = "call-%s-%d.*pay-%s-1"
        self.check_asked(model, PLAN, told % (model, 1, self.ref), PLAN, told % (model, 3, self.ref))


def pay_keyless(ref, amount):
    """What a tool without a key does."""
    response = requests.post(
        GATEWAY + "/tools/orders/payments",
        headers={"Authorization": "Bearer " + ALICE},
        json={"ref": ref, "amount": amount, "said": str(uuid.uuid4())},  # as a model words things differently
    )
    return response.text


class ChatStreams:
    def check_replayed_stream(self, sse):
        """One id, the usage, and its end."""
        self.assertTrue(sse.endswith("\n\ndata: [DONE]\n\n"), sse)
        chunks = [json.loads(line.removeprefix("data: ")) for line in sse.split("\n\n")[:-2]]
        self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)
        self.assertEqual(chunks[-1]["usage"]["total_tokens"], 18)


class ResponseStreams:
    def check_replayed_stream(self, sse):
        """The usage, in its end."""
        last = json.loads(sse.rstrip().rsplit("\ndata: ", 1)[1])
        self.assertEqual(last["type"], "response.completed")
        self.assertEqual(last["response"]["usage"]["total_tokens"], 18)
