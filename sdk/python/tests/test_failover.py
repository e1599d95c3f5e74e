"""Nodes die, and workers with their signals; three processes make the cluster."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Working, until

import rota


def definition(name: str, queue: str = "default", **options) -> rota.Definition[int, int]:
    return rota.define(name, int, int, queue=queue, **options)


async def test_a_lease_survives_its_node(three):
    d = definition("survive")
    go = asyncio.Event()

    @d.handler
    async def run(job: rota.Job, n: int) -> int:
        await go.wait()
        return n + 1

    async with rota.connect(three.addr) as c, Working(c, d) as w:
        h = await d.submit(c, 1)
        await until(lambda: "started" in w.kinds(h.id))
        waiting = asyncio.create_task(h.result(timeout=60))
        at = next(e.node for e in reversed(w.events) if e.kind == "connected")
        three.kill(int(at[1:]) - 1)
        try:
            await until(lambda: [e.kind for e in w.events].count("connected") == 2)
            go.set()
            assert await waiting == 2
            assert len((await h.job()).attempts) == 1
        finally:
            three.start(int(at[1:]) - 1)


async def test_a_paused_node_is_left(three):
    d = definition("paused")
    go = asyncio.Event()

    @d.handler
    async def run(job: rota.Job, n: int) -> int:
        await go.wait()
        return n

    async with rota.connect(three.addr) as c, Working(c, d) as w:
        h = await d.submit(c, 3)
        await until(lambda: "started" in w.kinds(h.id))
        at = next(e.node for e in reversed(w.events) if e.kind == "connected")
        i = int(at[1:]) - 1
        three.signal(i, signal.SIGSTOP)
        try:
            await until(lambda: [e.kind for e in w.events].count("connected") == 2, 30)
            go.set()
            assert await h.result(timeout=60) == 3
        finally:
            three.signal(i, signal.SIGCONT)
        assert len((await h.job()).attempts) == 1


async def test_a_wait_leaves_a_node_that_hangs(three, monkeypatch):
    monkeypatch.setattr("rota._waits._ASK_MOST", 1.0)
    d = definition("hangs")
    async with rota.connect(three.addr) as c:
        h = await d.submit(c, 1, delay=3600)
        addresses = three.addr.split(",")
        i = addresses.index(c._caller.present().address)
        waiting = asyncio.create_task(c.wait(h.id, timeout=40))
        await until(lambda: c._waits is not None and c._waits._streams)
        three.signal(i, signal.SIGSTOP)
        try:
            async with rota.connect(addresses[:i] + addresses[i + 1 :]) as others:
                await others.cancel(h.id)
            assert (await waiting).state == "CANCELLED"
        finally:
            three.signal(i, signal.SIGCONT)


async def test_ten_thousand_jobs_while_a_node_dies(three):
    n = 10_000
    d = definition("many")
    done: set[int] = set()

    @d.handler
    async def run(job: rota.Job, x: int) -> int:
        done.add(x)
        return x

    async with rota.connect(three.addr) as c, Working(c, d, concurrency=64):
        began = time.monotonic()
        hs: list[str] = []
        for at in range(0, n, 500):
            jobs = [d.job(i, id=f"many-{i}") for i in range(at, at + 500)]
            hs += [o.id for o in await c.submit(*jobs)]
            if at == 5_000:
                three.kill(0)
        try:
            jobs = await asyncio.gather(*(c.wait(j, timeout=100) for j in hs))
        finally:
            three.start(0)
        assert {j.state for j in jobs} == {"COMPLETED"}
        assert len(done) == n
        print(f"{n} jobs, submitted and done, in {time.monotonic() - began:.1f} s")


WORKER = """
import asyncio, sys, time, rota
d = rota.define("signalled", int, int)
@d.handler
def run(job, n):
    print("started", flush=True)
    time.sleep(1.5)
    return n * 2
async def main():
    async with rota.connect_env() as c:
        await rota.Worker(c, [d]).run()
    print("left", flush=True)
asyncio.run(main())
"""


async def test_sigterm_drains(three):
    d = definition("signalled")
    async with rota.connect(three.addr) as c:
        h = await d.submit(c, 21)
        env = {**os.environ, "ROTA_ADDR": three.addr}
        process = subprocess.Popen(  # noqa: ASYNC220 # it returns at once
            [sys.executable, "-c", WORKER], stdout=subprocess.PIPE, text=True, env=env
        )
        read = asyncio.get_running_loop().run_in_executor
        assert process.stdout is not None
        assert await read(None, process.stdout.readline) == "started\n"
        process.terminate()
        assert await read(None, process.stdout.readline) == "left\n"
        assert await read(None, process.wait) == 0
        process.stdout.close()
        assert await h.result(timeout=10) == 42


DYING = """
import asyncio, rota
d = rota.define("again", int, int)
@d.handler
async def run(job, n):
    print(job.token, flush=True)
    await asyncio.sleep(3600)
async def main():
    async with rota.connect_env() as c:
        await rota.Worker(c, [d], id="same", secret=b"0123456789abcdef").run()
asyncio.run(main())
"""


async def test_a_killed_worker_is_followed_by_one_with_its_secret(three):
    """The one that comes with the same id and secret gets the lease of the one that died."""
    d = definition("again")
    seen = []

    @d.handler
    async def run(job: rota.Job, n: int) -> int:
        seen.append(str(job.token))
        return n

    async with rota.connect(three.addr) as c:
        h = await d.submit(c, 5)
        process = subprocess.Popen(  # noqa: ASYNC220 # it returns at once
            [sys.executable, "-c", DYING],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "ROTA_ADDR": three.addr},
        )
        assert process.stdout is not None
        token = await asyncio.get_running_loop().run_in_executor(None, process.stdout.readline)
        process.kill()
        process.wait()
        process.stdout.close()
        async with Working(c, d, id="same", secret=b"0123456789abcdef"):
            assert await h.result(timeout=60) == 5
        assert seen == [token.strip()]  # the same lease, given back


async def test_events_go_on_at_another_node(three):
    d = definition("tell")
    async with rota.connect(three.addr) as c:
        (o,) = await c.submit(d.job(0, id="tell-0"))
        ids: list[str] = []

        async def follow():
            async for e in c.events(kinds=["jobEnqueued"]):
                if e.job.startswith("tell-"):
                    ids.append(e.job)
                if e.job == "tell-5":
                    return

        task = asyncio.create_task(follow())
        await until(lambda: ids == ["tell-0"])
        three.kill(1)
        try:
            for i in range(1, 6):
                await c.submit(d.job(i, id=f"tell-{i}"))
            await asyncio.wait_for(task, 30)
        finally:
            three.start(1)
        assert ids == [f"tell-{i}" for i in range(6)]
        await c.cancel(*ids)
        assert o.id == "tell-0"


async def test_an_outcome_that_nobody_takes_is_named(monkeypatch):
    from rota.testing import Cluster

    d = definition("unreported")
    go = asyncio.Event()

    @d.handler
    async def run(job: rota.Job, n: int) -> int:
        await go.wait()
        return n

    with Cluster(1) as one:
        await one.ready()
        async with rota.connect(one.addr, timeout=5) as c:
            w = Working(c, d)
            await w.__aenter__()
            h = await d.submit(c, 1)
            await until(lambda: "started" in w.kinds(h.id))
            one.kill(0)
            go.set()
            await until(lambda: "finished" in w.kinds(h.id))
            # From here on silence ends a lease sooner, so that the test is short. Before, it would
            # be lost between two beats, which are 2 s apart, and given back while the node lives.
            monkeypatch.setattr("rota._table._REPORT_LEAST", 0.5)
            monkeypatch.setattr("rota._view.BEAT_LOST", 1.0)
            w.worker.stop()
            with pytest.raises(rota.Unreported) as e:
                await w.task
            assert e.value.jobs == (h.id,)
            assert "given_up" in w.kinds(h.id)


def test_the_quickstart_runs(rota_cluster):
    path = Path(__file__).parent.parent / "examples" / "quickstart.py"
    env = {**os.environ, "ROTA_ADDR": rota_cluster.addr}
    done = subprocess.run(
        [sys.executable, str(path)],
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "320 x 240" in done.stdout
