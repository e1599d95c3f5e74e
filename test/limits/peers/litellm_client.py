"""The processes around LiteLLM: litellm_client.py work runs a proxy, submit calls the proxies until each call is let through."""

import asyncio
import json
import os
import pathlib
import random
import shutil
import socket
import sys
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).parent
PLACE = pathlib.Path(os.environ["LIMITS_DIR"])


def work() -> None:
    """Run one proxy on a free port, and write the port to a file."""
    name = os.environ["LIMITS_WORKER"]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    host, redis = os.environ["LIMITS_ADDR"].split(":")
    shutil.copy(HERE / "litellm_auth.py", PLACE)
    config = PLACE / f"{name}.yaml"
    config.write_text(json.dumps({
        "model_list": [{"model_name": "stub", "litellm_params": {
            "model": "openai/stub", "api_base": os.environ["LIMITS_PROVIDER"] + "/v1", "api_key": "none",
            "max_retries": 0}}],
        "litellm_settings": {"cache": True, "num_retries": 0, "cache_params": {
            "type": "redis", "host": host, "port": int(redis), "supported_call_types": []}},
        "general_settings": {"custom_auth": "litellm_auth.user_api_key_auth"},
    }))

    def announce() -> None:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=2).read()
                break
            except OSError:
                time.sleep(0.2)
        (PLACE / f"{os.environ['LIMITS_SLOT']}.port").write_text(str(port))
        print("ready", flush=True)

    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched from elsewhere
    threading.Thread(target=announce, daemon=True).start()
    from litellm.proxy.proxy_cli import run_server

    run_server(["--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"])


async def attempt(job: dict) -> bool:
    """Send a job's call to one of the proxies; return whether it was let through."""
    port = int((PLACE / f"{random.choice(['s1', 's2'])}.port").read_text())
    body = json.dumps({"model": "stub", "messages": [{"role": "user", "content": json.dumps(job)}]}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n"
                     b"Content-Type: application/json\r\nAuthorization: Bearer sk-%s\r\nContent-Length: %d\r\n\r\n%s"
                     % (job["key"].encode(), len(body), body))
        await writer.drain()
        answer = await reader.read()
        return answer.startswith(b"HTTP/1.1 200")
    finally:
        writer.close()


async def caller(queue: asyncio.Queue) -> None:
    while True:
        job = await queue.get()
        while True:
            try:
                if await attempt(job):
                    break
            except OSError:
                pass
            await asyncio.sleep(0.3)


async def submit() -> None:
    """Have six callers for each key with jobs. A refused call is tried again after 300 ms."""
    queues: dict[str, asyncio.Queue] = {}
    callers = []
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    while line := await reader.readline():
        job = json.loads(line)
        if job["key"] not in queues:
            queues[job["key"]] = asyncio.Queue()
            callers += [asyncio.create_task(caller(queues[job["key"]])) for _ in range(6)]
        queues[job["key"]].put_nowait(job)


if __name__ == "__main__":
    work() if sys.argv[1] == "work" else asyncio.run(submit())
