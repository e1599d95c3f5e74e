"""Coroutine tests run on an event loop of their own; a queue of its own for each test."""

import asyncio
import inspect
import uuid

import pytest

import rota
from rota.testing import Cluster, DevCluster

pytest_plugins = ["pytester"]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**{n: pyfuncitem.funcargs[n] for n in names}), 120))
    return True


@pytest.fixture
def queue(rota_cluster: DevCluster) -> str:
    """A queue that no other test has."""
    name = "q-" + uuid.uuid4().hex[:12]

    async def make():
        async with rota_cluster.connect() as c:
            await c.queues.set(name)

    asyncio.run(make())
    return name


@pytest.fixture(scope="module")
def three():
    """Three nodes, each a process."""
    with Cluster() as cluster:
        asyncio.run(cluster.ready())
        yield cluster


class Working:
    """A worker beside a test."""

    def __init__(self, c: rota.Client, *definitions: rota.Definition, **options) -> None:
        self.events: list[rota.WorkerEvent] = []
        self.worker = rota.Worker(c, definitions, observer=self.events.append, **options)

    async def __aenter__(self):
        self.task = asyncio.create_task(self.worker.run(signals=False))
        return self

    async def __aexit__(self, *_):
        self.worker.stop()
        await self.task

    def kinds(self, job: str) -> list[str]:
        return [e.kind for e in self.events if e.job == job]


async def until(what, seconds: float = 20.0):
    """Wait until something holds, and return it."""
    end = asyncio.get_running_loop().time() + seconds
    while True:
        got = what()
        if inspect.isawaitable(got):
            got = await got
        if got:
            return got
        assert asyncio.get_running_loop().time() < end, "it did not come in time"
        await asyncio.sleep(0.05)
