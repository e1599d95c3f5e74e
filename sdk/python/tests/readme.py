"""Writes the README's programs as one, which a type checker reads."""

import re
from pathlib import Path
from textwrap import indent

AROUND = """from typing import Any


async def everything(
    c: rota.Client,
    id: str,
    photo: Photo,
    x: int,
    y: int,
    fetch: rota.Definition[int, int],
    report: rota.Definition[int, int],
    callback: rota.Definition[None, None],
) -> None:
"""


def programs() -> str:
    """Return the quickstart, what is awaited in a coroutine, and what needs no loop."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    first, awaited, without, fixture = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    first = first.replace("\nasyncio.run(work())\n", "\n")  # it is read, not run
    return "\n".join([first, AROUND + indent(awaited, "    "), without, typed(fixture)])


def typed(fixture: str) -> str:
    """Give the test's fixture the type that pytest would find."""
    head, rest = fixture.split("(rota_cluster):", 1)
    return (
        "from rota.testing import DevCluster\n\n\n"
        + head
        + "(rota_cluster: DevCluster) -> None:"
        + rest
    )


if __name__ == "__main__":
    print(programs())
