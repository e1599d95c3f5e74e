"""Calls that continue at another node when one fails.

The coroutines run on the caller's own event loop; gRPC has its own threads.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast

import grpc

from . import _v1
from ._nodes import Node
from ._rpc import during, from_rpc
from .errors import Internal, RotaError, Timeout, Unavailable

_Q = TypeVar("_Q", bound="_v1.Message")
_M = TypeVar("_M", bound="_v1.Message")
_T = TypeVar("_T")

log = logging.getLogger("rota")

# A node that is cut off or paused cannot reach its leader: another is tried after this time.
ANSWER_MOST = 5.0
# How long the leader may take if another node named it.
_LEAD_MOST = 3.0
# How long a leader that failed is avoided even if another node names it.
_LEAD_SHUNNED = 15.0
# The minimum time of one try, and the pauses between tries.
_SHARE_LEAST = 0.7
_BACKOFF_LEAST, _BACKOFF_MOST = 0.05, 1.0
_RETRY_AFTER_MOST = 5.0
# How many answers of a stream may wait for their reader.
_STREAM_ROOM = 16


def retry_delay(attempt: int, asked: float) -> float:
    """Return the pause after a failed try: doubling, with jitter, no less than was asked."""
    d = min(_BACKOFF_LEAST * (1 << min(attempt, 5)), _BACKOFF_MOST)
    return max(d / 2 + random.uniform(0, d / 2), min(asked, _RETRY_AFTER_MOST))


class Answer:
    """The metadata that came with the answer of the last try."""

    __slots__ = ("trailer",)

    def __init__(self) -> None:
        self.trailer: list[tuple[str, str | bytes]] = []


async def unary(
    node: Node,
    method: _v1.Method[_Q, _M],
    request: _Q,
    timeout: float | None,
    answer: Answer | None = None,
) -> _M:
    """Make one try at one node. gRPC's error is raised unchanged."""
    call = node.unary(method).future(request, timeout=timeout, metadata=node.metadata())
    await _ended(call)
    if answer is not None:
        answer.trailer = list(call.trailing_metadata() or ())
    return cast(_M, call.result())


async def upload(
    node: Node, method: _v1.Method[_Q, _M], requests: Iterable[_Q], timeout: float | None
) -> _M:
    """Send many requests, and return the one answer."""
    call = node.requests(method).future(
        iter(list(requests)), timeout=timeout, metadata=node.metadata()
    )
    await _ended(call)
    return cast(_M, call.result())


async def _ended(call: Any) -> None:
    """Wait until a call has ended, and cancel the call if the wait is cancelled."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def tell(_: Any) -> None:
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:
            pass  # the loop was closed meanwhile: no one waits

    call.add_done_callback(tell)
    try:
        await done
    except asyncio.CancelledError:
        call.cancel()
        raise


async def answers(
    node: Node, method: _v1.Method[_Q, _M], request: _Q, timeout: float | None = None
) -> AsyncIterator[_M]:
    """Yield what a node streams. A separate thread reads slightly ahead of the caller."""
    loop = asyncio.get_running_loop()
    came: queue.SimpleQueue[tuple[_M | None, grpc.RpcError | None]] = queue.SimpleQueue()
    some = asyncio.Event()
    room = threading.Semaphore(_STREAM_ROOM)
    call = node.answers(method)(request, timeout=timeout, metadata=node.metadata())

    def put(item: _M | None, err: grpc.RpcError | None) -> None:
        came.put((item, err))
        try:
            loop.call_soon_threadsafe(some.set)
        except RuntimeError:
            call.cancel()

    def read() -> None:
        try:
            for item in call:
                room.acquire()
                put(item, None)
            put(None, None)
        except grpc.RpcError as e:
            put(None, e)

    threading.Thread(target=read, name="rota-stream", daemon=True).start()
    try:
        while True:
            while came.empty():
                some.clear()
                await some.wait()
            item, err = came.get()
            room.release()
            if err is not None:
                raise err
            if item is None:
                return
            yield item
    finally:
        call.cancel()
        room.release()


# One try at one node, with the seconds that it may take.
Try = Callable[[Node, float | None], Awaitable[_T]]


class Caller:
    """Calls the present node, then the next ones, until one answers."""

    def __init__(self, nodes: list[Node], patience: float | None) -> None:
        self.nodes = nodes
        self.patience = patience
        self.closed = False
        self._at = 0
        self._lead: Node | None = None
        self._shunned: dict[str, float] = {}

    @property
    def addresses(self) -> str:
        """The nodes, for error messages."""
        return ", ".join(n.address for n in self.nodes)

    def present(self) -> Node:
        """Return the node that calls go to now."""
        return self.nodes[self._at % len(self.nodes)]

    def move_on(self, failed: Node) -> None:
        """Switch to the next node, unless another call did so already."""
        if self.present() is failed:
            self._at = (self._at + 1) % len(self.nodes)

    def to_lead(self) -> tuple[Node, float]:
        """Return the leader, or else the present node, and how long it may take."""
        lead = self._lead
        return (lead, _LEAD_MOST) if lead is not None else (self.present(), ANSWER_MOST)

    def note_lead(self, answer: Answer) -> None:
        """Record the leader that a forwarding node named."""
        named = [v for k, v in answer.trailer if k == "rota-leader"]
        for n in self.nodes:
            if named == [n.address] and time.monotonic() >= self._shunned.get(n.address, 0.0):
                self._lead = n

    def lost_lead(self, failed: Node) -> None:
        """Record that a node failed."""
        if self._lead is failed:
            self._lead = None
            self._shunned[failed.address] = time.monotonic() + _LEAD_SHUNNED

    def deadline(self, timeout: float | None = None) -> float | None:
        """Return the local time at which a call that begins now is given up."""
        timeout = self.patience if timeout is None else timeout
        return None if timeout is None else time.monotonic() + timeout

    def share(self, deadline: float | None, most: float | None) -> float | None:
        """Bound one try, so that a silent node leaves the others part of the time."""
        left = None if deadline is None else max(0.001, deadline - time.monotonic())
        if most is None or len(self.nodes) == 1:
            return left
        return most if left is None else min(most, max(_SHARE_LEAST, left / len(self.nodes)), left)

    def judge(self, node: Node, err: grpc.RpcError | RotaError, over: bool) -> RotaError:
        """Convert the error of a try. While the caller has time, a timeout is the node's fault."""
        e = from_rpc(err) if isinstance(err, grpc.RpcError) else err
        if isinstance(e, Timeout) and not over:
            return Unavailable(f"node {node.address} did not answer in time")
        if isinstance(e, Unavailable):
            e.text = f"node {node.address}: {e.text}"
        return e

    async def call(
        self,
        op: str,
        attempt: Try[_T],
        *,
        most: float | None = ANSWER_MOST,
        at: Callable[[], tuple[Node, float]] | None = None,
        deadline: float | None = None,
    ) -> _T:
        """Make a call until a node answers, another try would not help, or time is over."""
        deadline = self.deadline() if deadline is None else deadline
        last: RotaError | None = None
        tries = 0
        while True:
            if self.closed:
                raise Unavailable("the client is closed", op=op)
            node, bound = at() if at is not None else (self.present(), most)
            try:
                return await attempt(node, self.share(deadline, bound))
            except (grpc.RpcError, RotaError) as err:
                over = deadline is not None and time.monotonic() >= deadline
                e = self.judge(node, err, over)
            if not isinstance(e, (Unavailable, Timeout)):
                raise during(op, e)
            # A node's reason is more useful than a timeout.
            if last is None or not isinstance(e, Timeout):
                last = e
            self.move_on(node)
            self.lost_lead(node)
            delay = retry_delay(tries, e.retry_after)
            if over or (deadline is not None and time.monotonic() + delay >= deadline):
                raise self.gave_up(op, last)
            log.debug("%s failed at %s, trying again: %s", op, node.address, e)
            await asyncio.sleep(delay)
            tries += 1

    def gave_up(self, op: str, last: RotaError | None) -> RotaError:
        """Return the error of a call whose time ended before a node answered."""
        text = f"no node of {self.addresses} answered in time"
        if last is None:
            return Unavailable(text, op=op)
        e = Unavailable(f"{text}, the last error was: {last}", op=op, retry_after=last.retry_after)
        e.__cause__ = last
        return e

    async def ask(
        self,
        op: str,
        method: _v1.Method[_Q, _M],
        request: _Q,
        *,
        most: float | None = ANSWER_MOST,
        deadline: float | None = None,
    ) -> _M:
        """Make a call of one request and one answer."""
        return await self.call(
            op,
            lambda node, timeout: unary(node, method, request, timeout),
            most=most,
            deadline=deadline,
        )

    def close(self) -> None:
        """End all connections and calls."""
        self.closed = True
        for n in self.nodes:
            n.channel.close()


def same_count(op: str, got: int, want: int) -> None:
    """Reject an answer that has more or fewer outcomes than expected."""
    if got != want:
        raise Internal(f"the node answered {got} outcomes for {want} items", op=op)
