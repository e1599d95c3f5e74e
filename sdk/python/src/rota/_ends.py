"""Waits for the end of a workflow or a batch, at one node after another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from ._calls import Caller, retry_delay
from ._nodes import Node
from ._values import Span, to_seconds
from .errors import NotFound, RotaError, Timeout, Unavailable

_T = TypeVar("_T")

# How long one node may wait before the next is tried: one that is cut off never answers.
_WAIT_MOST = 20.0


async def await_end(
    caller: Caller,
    op: str,
    what: str,
    ask: Callable[[Node, float], Awaitable[_T]],
    look: Callable[[], Awaitable[_T | None]],
    timeout: Span | None,
) -> _T:
    """Ask until a node reports the end, or the time is over."""
    deadline = None if timeout is None else time.monotonic() + to_seconds(timeout)
    tries = 0
    last: RotaError | None = None
    while True:
        if caller.closed:
            raise Unavailable("the client is closed", op=op)
        node = caller.present()
        left = _WAIT_MOST if deadline is None else deadline - time.monotonic()
        if left <= 0:
            if last is not None:
                raise caller.gave_up(op, last)
            raise Timeout(f"{what} did not end in time", op=op)
        try:
            return await ask(node, min(left, _WAIT_MOST))
        except (grpc.RpcError, RotaError) as err:
            e = caller.judge(node, err, True)
        if isinstance(e, Timeout):
            tries, last = 0, None
            continue
        if isinstance(e, NotFound):
            # A node's replica may lag behind: only a linearizable read proves that the object is
            # missing.
            got = await look()
            if got is not None:
                return got
        elif isinstance(e, Unavailable):
            last = e
            caller.move_on(node)
            tries += 1
        else:
            e.op = e.op or op
            raise e
        await asyncio.sleep(retry_delay(tries, e.retry_after))
