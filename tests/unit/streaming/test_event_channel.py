"""What the reference says of a bounded way to a client, with the client's side in the test's hands."""

import asyncio

import pytest

from inference.domain.admission_events import ReceiverOutcome
from inference.streaming.event_channel import EventChannel, ReceiverLost

LIMIT_S = 0.25


class Client:
    """Takes messages while it reads; a socket that was aborted takes everything and keeps nothing."""

    def __init__(self):
        self.got = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.num_aborts = 0

    async def send(self, message):
        await self.reads.wait()
        self.got.append(message["body"])

    def abort(self):
        self.num_aborts += 1


def channel_of(client, *, limit_s=LIMIT_S):
    return EventChannel(client.send, stall_limit_s=limit_s, abort=client.abort)


def body(text):
    return {"body": text}


async def send_all(channel, *texts):
    async with channel:
        for text in texts:
            await channel.send(body(text))


async def test_a_reader_that_reads_gets_everything_in_order():
    client = Client()

    await send_all(channel_of(client), *range(200))

    assert client.got == list(range(200))
    assert client.num_aborts == 0


async def test_a_stalled_send_ends_the_request_after_the_limit_and_aborts_the_socket():
    client = Client()
    client.reads.clear()
    channel = channel_of(client)
    loop = asyncio.get_running_loop()
    began = loop.time()

    with pytest.raises(ReceiverLost) as caught:
        await send_all(channel, "a")

    assert LIMIT_S <= loop.time() - began < 5 * LIMIT_S
    assert (caught.value.loss, channel.loss) == (ReceiverOutcome.STALLED, ReceiverOutcome.STALLED)
    assert client.num_aborts == 1
    assert asyncio.current_task().cancelling() == 0


async def test_nobody_waits_again_for_a_reader_that_stalled():
    client = Client()
    client.reads.clear()
    channel = channel_of(client)
    with pytest.raises(ReceiverLost):
        await send_all(channel, "a")
    loop = asyncio.get_running_loop()
    began = loop.time()

    with pytest.raises(ReceiverLost):
        await channel.send(body("last"))

    assert loop.time() - began < LIMIT_S / 5


async def test_the_limit_is_for_one_send_and_not_for_all():
    client = Client()
    channel = channel_of(client)

    async def read_slowly():
        for _ in range(6):
            client.reads.clear()
            await asyncio.sleep(LIMIT_S / 3)
            client.reads.set()
            await asyncio.sleep(0)

    reading = asyncio.ensure_future(read_slowly())
    async with channel:
        while not reading.done():
            await channel.send(body("x"))
            await asyncio.sleep(0)

    assert channel.loss is None


async def test_a_pause_between_messages_is_no_stall():
    client = Client()
    channel = channel_of(client)

    async with channel:
        await channel.send(body("a"))
        await asyncio.sleep(3 * LIMIT_S)
        await channel.send(body("b"))

    assert client.got == ["a", "b"]


async def test_cancelling_unblocks_a_stalled_send_at_once():
    client = Client()
    client.reads.clear()
    channel = channel_of(client, limit_s=60)
    task = asyncio.ensure_future(send_all(channel, "a"))
    await asyncio.sleep(0.01)

    task.cancel()
    await asyncio.wait([task], timeout=1)

    assert task.cancelled()
    assert channel.loss is None


async def test_a_cancelled_request_can_still_send_its_last_frames():
    client = Client()
    channel = channel_of(client)

    async def serve():
        async with channel:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await channel.send(body("error"))
                await channel.send(body("[DONE]"))
                raise

    task = asyncio.ensure_future(serve())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=1)

    assert client.got == ["error", "[DONE]"]
    assert task.cancelled()


async def test_last_frames_are_not_waited_for_longer_than_the_limit():
    client = Client()
    channel = channel_of(client)

    async def serve():
        async with channel:
            client.reads.clear()
            channel.is_terminal = True
            await channel.send(body("[DONE]"))

    with pytest.raises(ReceiverLost):
        await asyncio.wait_for(serve(), 10 * LIMIT_S)
    assert channel.is_terminal


async def test_a_client_that_left_takes_nothing_more_and_stays_the_first_loss():
    client = Client()
    channel = channel_of(client)
    channel.drop()

    with pytest.raises(ReceiverLost) as caught:
        await send_all(channel, "a")

    assert caught.value.loss is ReceiverOutcome.DROPPED
    stalled = channel_of(client)
    client.reads.clear()
    with pytest.raises(ReceiverLost):
        await send_all(stalled, "a")
    stalled.drop()
    assert stalled.loss is ReceiverOutcome.STALLED


async def test_cancellation_has_precedence_over_a_stall_that_comes_with_it():
    client = Client()
    client.reads.clear()
    # The socket's end comes back as a disconnect.
    task: asyncio.Task[None]

    def abort():
        task.cancel()

    channel = EventChannel(client.send, stall_limit_s=LIMIT_S, abort=abort)
    task = asyncio.ensure_future(send_all(channel, "a"))

    await asyncio.wait([task], timeout=1)

    assert task.cancelled()
    assert channel.loss is ReceiverOutcome.STALLED


async def test_a_silent_stream_says_something_first_late_then_at_intervals():
    client = Client()
    channel = channel_of(client, limit_s=60)

    async def say():
        await channel.send(body("alive"))

    async with channel:
        channel.keep_alive(say, first_s=0.2, every_s=0.05)
        await asyncio.sleep(0.06)
        assert client.got == []
        await asyncio.sleep(0.5)

    assert 3 <= len(client.got) <= 10
    num = len(client.got)
    await asyncio.sleep(0.1)
    assert len(client.got) == num  # nothing after the end


async def test_a_stream_that_speaks_is_not_interrupted():
    client = Client()
    channel = channel_of(client, limit_s=60)

    async def say():
        await channel.send(body("alive"))

    async with channel:
        channel.keep_alive(say, first_s=0.25, every_s=0.25)
        for _ in range(30):
            await channel.send(body("text"))
            await asyncio.sleep(0.01)

    assert "alive" not in client.got


@pytest.mark.parametrize(("first_s", "every_s"), [(0, 0), (0, 0.01)])
async def test_zero_is_never(first_s, every_s):
    client = Client()
    channel = channel_of(client, limit_s=0)

    async def say():
        await channel.send(body("alive"))

    async with channel:
        channel.keep_alive(say, first_s=first_s, every_s=every_s)
        await asyncio.sleep(0.05)

    assert client.got == []


async def test_what_is_said_in_the_silence_keeps_its_place_before_the_next_message():
    client = Client()
    channel = channel_of(client, limit_s=60)

    async def say():
        await channel.send(body("headers"))
        await channel.send(body("alive"))

    async with channel:
        channel.keep_alive(say, first_s=0.01, every_s=60)
        client.reads.clear()
        await asyncio.sleep(0.05)
        sending = asyncio.ensure_future(channel.send(body("text")))
        await asyncio.sleep(0.01)
        client.reads.set()
        await sending

    assert client.got == ["headers", "alive", "text"]


async def test_a_reader_that_stalls_on_a_sign_of_life_ends_the_request_too():
    client = Client()
    client.reads.clear()
    channel = channel_of(client)

    async def say():
        await channel.send(body("alive"))

    async def serve():
        async with channel:
            channel.keep_alive(say, first_s=0.01, every_s=60)
            await asyncio.sleep(60)

    with pytest.raises(ReceiverLost):
        await asyncio.wait_for(serve(), 10 * LIMIT_S)
    assert client.num_aborts == 1
