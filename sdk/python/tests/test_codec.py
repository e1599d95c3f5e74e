import enum
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, TypedDict
from uuid import UUID

import pydantic
import pytest

from rota.codec import codec_of


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Size:
    width: int
    height: float = 1.0


@dataclass
class Photo:
    name: str
    size: Size
    tags: list[str] = field(default_factory=list)
    by: dict[str, Size] = field(default_factory=dict)
    taken: datetime | None = None
    raw: bytes = b""
    colour: Colour = Colour.RED
    kind: Literal["a", "b"] = "a"
    pair: tuple[int, str] = (1, "x")
    took: timedelta = timedelta()
    id: UUID | None = None


class Note(TypedDict, total=False):
    text: str
    sizes: list[Size]


class Model(pydantic.BaseModel):
    big: int
    when: datetime


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (int, 2**53 + 1),
        (str, "Grüße, 世界 \U0001f600 \u2028"),
        (bytes, b"\x00\xff raw"),
        (list[int], [1, 2]),
        (Any, {"a": [None, True, 1.5]}),
        (type(None), None),
        (dict[int, Size], {1: Size(2)}),
        (set[str], {"a"}),
        (Note, {"text": "x", "sizes": [Size(1)]}),
        (Model, Model(big=2**60, when=datetime(2026, 1, 2, tzinfo=timezone.utc))),
        (
            Photo,
            Photo(
                "ü",
                Size(3, 2.5),
                ["a"],
                {"k": Size(1)},
                datetime(2026, 1, 1, tzinfo=timezone.utc),
                b"\xff",
                Colour.RED,
                "b",
                (7, "y"),
                timedelta(seconds=1.5),
                UUID(int=9),
            ),
        ),
    ],
    ids=str,
)
def test_round_trip(of, value):
    codec = codec_of(of)
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize(
    ("of", "data", "says"),
    [
        (Size, b'{"height": 1}', "value.width is missing"),
        (Size, b'{"width": "3"}', 'value.width: want int, got "3"'),
        (Photo, b'{"name": "a", "size": {"width": true}}', "value.size.width: want int"),
        (list[int], b'[1, "a"]', r"value\[1\]: want int"),
        (int, b"1.5", "want int"),
        (int, b"{", "Expecting property name"),
        (Model, b'{"big": 1}', "Field required"),
        (Literal["a"], b'"b"', "one of"),
        (datetime, b'"yesterday"', "isoformat"),
    ],
)
def test_what_does_not_fit_is_named(of, data, says):
    with pytest.raises((TypeError, ValueError), match=says):
        codec_of(of).decode(data)


def test_not_json():
    for value in (float("nan"), object(), {1j: 2}):
        with pytest.raises((TypeError, ValueError)):
            codec_of(Any).encode(value)
    with pytest.raises(TypeError):
        codec_of(bytes).encode("text")


def test_unknown_fields_are_left_out():
    assert codec_of(Size).decode(b'{"width": 1, "depth": 2}') == Size(1)


def test_nothing_is_null():
    assert codec_of(Any).decode(b"") is None
    assert codec_of(bytes).decode(b"") == b""
