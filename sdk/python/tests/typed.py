"""What a type checker sees: read by mypy, run by nobody."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from typing_extensions import TypedDict, assert_type

import rota
from rota import sync


@dataclass
class Photo:
    width: int


class Thumb(TypedDict):
    text: str


resize = rota.define("resize", Photo, Thumb, queue="images", priority=3)
assert_type(resize, rota.Definition[Photo, Thumb])
assert_type(rota.define("a", None, None), rota.Definition[None, None])
assert_type(rota.define("a", None, int), rota.Definition[None, int])
assert_type(rota.define("a", dict[str, int]), rota.Definition[dict[str, int], None])
assert_type(rota.define("a", Photo, Thumb | None), rota.Definition[Any, Any])
assert_type(rota.define("a"), rota.Definition[Any, Any])

rota.define("a", int, int, colour="red")  # type: ignore[call-overload]


@resize.handler
async def run(job: rota.Job, photo: Photo) -> Thumb:
    return Thumb(text=str(photo.width))


@rota.define("b", int, int).handler
def in_thread(job: rota.Job, n: int) -> rota.Result[int] | int:
    return rota.Result(n, meta={"a": "b"})


@resize.handler  # type: ignore[arg-type]
async def wrong(job: rota.Job, photo: int) -> Thumb:
    return Thumb(text="")


@resize.handler  # type: ignore[arg-type]
async def wrong_too(job: rota.Job, photo: Photo) -> int:
    return 1


async def main(c: rota.Client, s: sync.Client) -> None:
    h = await resize.submit(c, Photo(1), id="a", keys={"album": "7"}, costs={"usd": 0.25})
    assert_type(await h.result(timeout=1), Thumb)
    assert_type(sync.submit(s, resize, Photo(1)).result(), Thumb)
    assert_type(await h.job(stale=True), rota.JobInfo)
    assert_type(sync.submit(s, resize, Photo(1)).job(at_least=7), rota.JobInfo)
    await h.job(fresh=True)  # type: ignore[call-arg]
    await resize.submit(c, 3)  # type: ignore[arg-type]
    async for job in c.jobs(stale=True):
        assert_type(job, rota.JobInfo)
    assert_type(s.call(c.queues.get("a")), rota.QueueInfo)
    assert_type(s.call(c.budgets.grant("a", Decimal("0.5"))), rota.BudgetAccount)
    for state in s.iterate(c.budgets.list()):
        assert_type(state, rota.BudgetState)
