"""The client processes of DBOS: dbos_client.py work|submit."""

import concurrent.futures
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig

import provider

URL = f"postgresql://rota@{os.environ['LIMITS_ADDR']}/limits?sslmode=disable"
QUEUE = "calls"
VERSION = "1"
LIMITS = json.loads(os.environ["LIMITS_LIMITS"])


@DBOS.step()
async def call(job: dict[str, Any]) -> int:
    return await provider.call(job)


@DBOS.workflow(name="run")
async def run(job: dict[str, Any]) -> int:
    return await call(job)


def launch() -> None:
    config: DBOSConfig = {
        "name": "limits",
        "system_database_url": URL,
        "application_version": VERSION,
        "executor_id": os.environ["LIMITS_SLOT"],
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(
        QUEUE,
        partition_concurrency=LIMITS["Concurrency"],
        partition_limiter={"limit": LIMITS["Rate"], "period": 1.0},
        polling_interval_sec=0.05,
    )


def work() -> None:
    launch()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    print("ready", flush=True)
    while not stop.wait(1):
        pass
    DBOS.destroy(workflow_completion_timeout_sec=10)


def submit() -> None:
    launch()  # creates the tables and the queue
    DBOS.destroy()
    client = DBOSClient(system_database_url=URL)
    print("ready", flush=True)

    def enqueue(job: dict[str, Any]) -> None:
        while True:
            try:
                client.enqueue(
                    {"queue_name": QUEUE, "workflow_name": "run", "workflow_id": job["id"], "app_version": VERSION,
                     "queue_partition_key": job["key"]},
                    job,
                )
                print(job["id"] + "\n", end="", flush=True)
                return
            except Exception as e:  # the same id is submitted again
                print("submit:", repr(e)[:200], file=sys.stderr, flush=True)
                time.sleep(0.5)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for line in sys.stdin:
            pool.submit(enqueue, json.loads(line))


if __name__ == "__main__":
    work() if sys.argv[1] == "work" else submit()
