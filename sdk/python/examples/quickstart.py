"""Submits a job and does it, in one process: run `rota dev` first, or set ROTA_ADDR."""

import asyncio
from dataclasses import dataclass

import rota


@dataclass
class Photo:
    """What is submitted."""

    width: int
    height: int


@dataclass
class Thumb:
    """What comes back."""

    text: str


resize = rota.define("resize", Photo, Thumb, queue="images", max_runtime=120)


@resize.handler
async def run(job: rota.Job, photo: Photo) -> Thumb:
    """Do one attempt of a job."""
    job.log.info("resizing under %s", job.token)  # kept: rota job logs ID
    return Thumb(f"{photo.width // 2} x {photo.height // 2}")


async def main() -> None:
    """Submit a job and wait for it, with a worker beside."""
    async with rota.connect_env() as c:
        await c.queues.set("images")
        worker = rota.Worker(c, [resize], concurrency=8)
        working = asyncio.create_task(worker.run())
        handle = await resize.submit(c, Photo(640, 480))
        thumb = await handle.result(timeout=30)
        print(handle.id, thumb.text)
        worker.stop()
        await working


if __name__ == "__main__":
    asyncio.run(main())
