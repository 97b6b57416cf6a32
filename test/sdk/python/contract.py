"""The promises of the gateway that both SDKs are held against in the same
words: their clients differ only in where a call is made and what it takes."""

import asyncio
import uuid

from stage import ALICE, BOB, Check

SLOW = {"delay": 1000}  # long enough for a second call to come in


class Contract:
    """Mixed into a Check. The SDK's class gives these:

    sdk            the module with its error classes
    client(key)    a client of the gateway that counts in self.sent
    async_client(key)
    api(client)    where calls are made: has create, with_raw_response, with_streaming_response
    params(model)  what create takes for a call of one model
    text(message)  the text of an answer
    pieces(events) the text of a streamed answer
    """

    def raw(self, client, model, **options):
        return self.api(client).with_raw_response.create(**self.params(model), **options).http_response

    def raw_stream(self, client, model, **options):
        call = self.api(client).with_streaming_response.create(**self.params(model), stream=True, **options)
        with call as response:
            return b"".join(response.iter_bytes()), response.headers

    def at_once(self, *keys, model, **options):
        """One raw answer for each of the keys, asked for by a client each at the same time."""

        async def ask(key):
            async with self.async_client(key) as client:
                call = self.api(client).with_raw_response.create(**self.params(model), **options)
                response = (await call).http_response
                return response.text, response.headers

        async def gather():
            return await asyncio.gather(*(ask(key) for key in keys))

        return asyncio.run(gather())

    def test_2_two_503_are_hidden(self):
        model = self.model({"status": 503}, {"status": 503}, {})
        answer = self.api(self.client(ALICE)).create(**self.params(model))
        self.assertIn("and done.", self.text(answer))
        self.assertSent(1)
        self.assertCalls(model, 3)

    def test_2_503_for_ever_is_asked_once(self):
        model = self.model({"status": 503})
        with self.assertRaises(self.sdk.APIStatusError) as caught:
            self.api(self.client(ALICE)).create(**self.params(model))
        self.assertEqual(caught.exception.status_code, 503)
        self.assertIn("scripted 503", str(caught.exception))
        self.assertEqual(caught.exception.response.headers["x-should-retry"], "false")
        self.assertEqual(caught.exception.response.headers["oncegate-outcome"], "failed")
        self.assertSent(1)
        self.assertCalls(model, 3)

    def test_refusals_of_the_upstream_come_as_they_are(self):
        model = self.our_model({"status": 400})
        with self.assertRaises(self.sdk.BadRequestError) as caught:
            self.api(self.client(ALICE)).create(**self.params(model))
        self.assertIn("scripted 400, call 1", str(caught.exception))
        self.assertEqual(caught.exception.request_id, f"req-{model}-1")
        self.assertSent(1)
        self.assertCalls(model, 1)

    def test_an_unknown_key_is_refused(self):
        model = self.model()
        with self.assertRaises(self.sdk.AuthenticationError):
            self.api(self.client("ogk_unknown")).create(**self.params(model))
        self.assertSent(1)
        self.assertCalls(model, 0)

    def test_3_keyed_calls_at_once_and_later(self):
        model, key = self.model(SLOW), {"Idempotency-Key": str(uuid.uuid4())}
        (one, led), (two, followed) = self.at_once(ALICE, ALICE, model=model, extra_headers=key)
        self.assertEqual(one, two)
        self.assertEqual({led["oncegate-outcome"], followed["oncegate-outcome"]}, {"executed", "coalesced"})
        later = self.raw(self.client(ALICE), model, extra_headers=key)
        self.assertEqual(later.text, one)
        self.assertEqual(later.headers["oncegate-outcome"], "replayed")
        self.assertEqual(later.headers["idempotent-replayed"], "true")
        self.assertSent(3)
        self.assertCalls(model, 1)

    def test_3_a_key_with_another_body(self):
        model, client, key = self.model(), self.client(ALICE), {"Idempotency-Key": str(uuid.uuid4())}
        self.raw(client, model, extra_headers=key)
        with self.assertRaises(self.sdk.UnprocessableEntityError) as caught:
            self.raw(client, model, extra_headers=key, extra_body={"temperature": 0.25})
        self.assertEqual(caught.exception.response.headers["oncegate-reason"], "key_reused")
        self.assertSent(2)
        self.assertCalls(model, 1)

    def test_4_a_retry_after_a_time_out_joins(self):
        model = self.model({"delay": 2500}, {})
        answer = self.api(self.client(ALICE).with_options(timeout=1.0)).create(**self.params(model))
        self.assertIn("and done.", self.text(answer))
        self.assertGreaterEqual(len(self.sent), 2)
        self.assertCalls(model, 1)

    def test_5_twins_share_one_call(self):
        model = self.model(SLOW)
        (one, led), (two, followed) = self.at_once(ALICE, ALICE, model=model)
        self.assertEqual(one, two)
        self.assertEqual({led["oncegate-outcome"], followed["oncegate-outcome"]}, {"executed", "coalesced"})
        self.assertSent(2)
        self.assertCalls(model, 1)

    def test_5_two_clients_share_nothing(self):
        model = self.model(SLOW)
        (one, _), (two, _) = self.at_once(ALICE, BOB, model=model)
        self.assertNotEqual(one, two)
        self.assertSent(2)
        self.assertCalls(model, 2)

    def test_5_a_delivered_answer_is_not_repeated(self):
        model, client = self.model(), self.client(ALICE)
        self.assertNotEqual(self.raw(client, model).text, self.raw(client, model).text)
        self.assertSent(2)
        self.assertCalls(model, 2)

    def test_a_marked_retry_is_replayed(self):
        model, client = self.model(), self.client(ALICE)
        first = self.raw(client, model)
        again = self.raw(client, model, extra_headers={"Oncegate-Retry": "1"})
        self.assertEqual(again.text, first.text)
        self.assertEqual(again.headers["oncegate-reason"], "retry_marked")
        self.assertCalls(model, 1)

    def test_nothing_of_the_client_reaches_the_upstream(self):
        model = self.our_model()
        headers = {"Idempotency-Key": "k-1", "Oncegate-User": "u", "Cookie": "c=1", "X-Team": "blue"}
        self.raw(self.client(ALICE), model, extra_headers=headers)
        (call,) = self.calls(model)
        seen = {name.lower(): values for name, values in call["header"].items()}
        self.assertEqual(seen["x-team"], ["blue"])
        private = ("oncegate-", "x-stainless-", "idempotency-key", "cookie", "openai-organization", "x-forwarded-")
        self.assertEqual([name for name in seen if name.startswith(private)], [])
        self.assertNotIn(ALICE, str(call))

    def check_one_whole_stream(self, model):
        events = list(self.api(self.client(ALICE)).create(**self.params(model), stream=True))
        self.assertTrue(self.pieces(events).endswith("and done."))
        self.assertSent(1)
        self.assertCalls(model, 2)

    def test_6_a_stream_reset_before_its_status(self):
        self.check_one_whole_stream(self.model({"break": "connection"}, {}))

    def test_6_a_stream_reset_before_its_first_event(self):
        self.check_one_whole_stream(self.our_model({"break": "headers"}, {}))

    def check_cut_stream(self, model):
        """A cut stream raises after what came; it isn't kept, so its key runs again."""
        key = {"Idempotency-Key": str(uuid.uuid4())}
        client, events = self.client(ALICE), []
        with self.assertRaises(self.sdk.APIError):
            for event in self.api(client).create(**self.params(model), stream=True, extra_headers=key):
                events.append(event)
        self.assertTrue(self.pieces(events).startswith("To "))
        self.assertSent(1)
        self.assertCalls(model, 1)
        again = list(self.api(client).create(**self.params(model), stream=True, extra_headers=key))
        self.assertTrue(self.pieces(again).endswith("and done."))
        self.assertCalls(model, 2)

    def test_6_a_stream_that_ends_without_a_finish(self):
        self.check_cut_stream(self.our_model({"break": "end", "events": 7}, {}))

    def test_6_a_stream_reset_in_its_middle(self):
        self.check_cut_stream(self.model({"break": "reset", "events": 7}, {}))

    def test_7_a_keyed_stream_is_replayed(self):
        model, client, key = self.model(), self.client(ALICE), {"Idempotency-Key": str(uuid.uuid4())}
        first, _ = self.raw_stream(client, model, extra_headers=key)
        again, headers = self.raw_stream(client, model, extra_headers=key)
        self.assertEqual(again, first)
        self.assertEqual(headers["idempotent-replayed"], "true")
        self.assertSent(2)
        self.assertCalls(model, 1)
        self.check_replayed_stream(first.decode())
