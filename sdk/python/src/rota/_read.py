"""Reads: how fresh an answer must be, and lists page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

from . import _v1

_T = TypeVar("_T")

# The rows of a page where all are wanted, and where only some are.
PAGE_ROWS = 500


class ReadOptions(TypedDict, total=False):
    """How fresh a read must be; without either it is linearizable."""

    # : Answered at once from the state of the node that answers, which may lag behind.
    stale: bool
    # : Includes at least the write of this index.
    at_least: int


def read_of(options: ReadOptions) -> _v1.Read:
    """Return the freshness of a read as a protocol message."""
    return _v1.Read(stale=options.get("stale", False), min_index=options.get("at_least", 0))


# The rows of a page, the cursor of the next one, and where it was read.
Page = tuple[Sequence[_T], str, _v1.ReadAt]


async def pages(
    options: ReadOptions,
    limit: int | None,
    ask: Callable[[_v1.Read, int, str], Awaitable[Page[Any]]],
    of: Callable[[Any], _T],
) -> AsyncIterator[_T]:
    """Yield the rows of all pages; each sees at least what the previous one saw."""
    read, cursor, left = read_of(options), "", limit
    while left is None or left > 0:
        rows, cursor, at = await ask(read, min(left or PAGE_ROWS, PAGE_ROWS), cursor)
        for row in rows:
            yield of(row)
        if left is not None:
            left -= len(rows)
        if not cursor:
            return
        read = _v1.Read(min_index=at.index)


def settings(values: Mapping[str, Any]) -> list[_v1.Setting]:
    """Return settings as protocol messages: true and false for a bool."""
    return [
        _v1.Setting(key=k, value=str(v).lower() if isinstance(v, bool) else str(v))
        for k, v in values.items()
    ]
