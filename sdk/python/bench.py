"""Measures a worker of empty handlers: jobs a second, and its CPU a job.

Usage: ``eval "$(rota dev --background)"; python bench.py [JOBS] [CONCURRENCY]``.
"""

import asyncio
import sys
import time

import rota

noop = rota.define("noop", None, None, queue="bench")


@noop.handler
async def run(job: rota.Job, _: None) -> None:
    """Do nothing."""


async def main(jobs: int, concurrency: int) -> None:
    """Submit all jobs, then work them, and print what that took."""
    async with rota.connect_env() as c:
        await c.queues.set("bench")
        began = time.monotonic()
        for at in range(0, jobs, 1000):
            await c.submit(*(noop.job(None) for _ in range(min(1000, jobs - at))))
        print(f"submitted  {jobs / (time.monotonic() - began):8,.0f} jobs/s")
        loop = asyncio.get_running_loop()
        done, left = asyncio.Event(), jobs

        def observe(event: rota.WorkerEvent) -> None:
            nonlocal left
            if event.kind == "reported":
                left -= 1
                if left == 0:
                    loop.call_soon_threadsafe(done.set)

        worker = rota.Worker(c, [noop], concurrency=concurrency, observer=observe)
        began, cpu = time.monotonic(), time.process_time()
        working = asyncio.create_task(worker.run())
        await done.wait()
        took, cpu = time.monotonic() - began, time.process_time() - cpu
        print(f"worked     {jobs / took:8,.0f} jobs/s, {cpu / jobs * 1e6:.0f} us of CPU a job")
        worker.stop()
        await working


asyncio.run(main(*(int(a) for a in (sys.argv[1:] + ["20000", "64"][len(sys.argv) - 1 :]))))
