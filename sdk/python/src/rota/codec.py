"""Values to payloads and back: dataclasses, pydantic models, TypedDicts, plain JSON."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import enum
import json
import types
import typing
from datetime import date, datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar, cast
from uuid import UUID

T = TypeVar("T")


class Codec(Protocol[T]):
    """Converts the values of one type to bytes, and back."""

    def encode(self, value: T) -> bytes:
        """Return the bytes of a value."""

    def decode(self, data: bytes) -> T:
        """Return the value of bytes; raise ValueError or TypeError for invalid bytes."""


def codec_of(of: Any) -> Codec[Any]:
    """Return the codec of a type: raw for bytes, else JSON."""
    return _Bytes() if of is bytes else _Json(of)


class _Bytes:
    def encode(self, value: bytes) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"want bytes, got {type(value).__name__}")
        return bytes(value)

    def decode(self, data: bytes) -> bytes:
        return data


class _Json(Generic[T]):
    def __init__(self, of: Any) -> None:
        self._of = of

    def encode(self, value: T) -> bytes:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
        ).encode()

    def decode(self, data: bytes) -> T:
        data = data or b"null"  # empty payload
        if _pydantic(self._of):
            return cast(T, self._of.model_validate_json(data))
        return cast(T, revive(self._of, json.loads(data), "value"))


def _pydantic(of: Any) -> bool:
    return isinstance(of, type) and hasattr(of, "model_validate_json")


def _plain(v: Any) -> Any:
    """Return a JSON form of a value that the json module cannot write."""
    if dataclasses.is_dataclass(v) and not isinstance(v, type):
        return {f.name: getattr(v, f.name) for f in dataclasses.fields(v)}
    if hasattr(v, "model_dump"):
        return v.model_dump(mode="json", by_alias=True)
    if isinstance(v, enum.Enum):
        return v.value
    if isinstance(v, (datetime, date)):
        return v.isoformat()
    if isinstance(v, timedelta):
        return v.total_seconds()
    if isinstance(v, UUID):
        return str(v)
    if isinstance(v, (bytes, bytearray)):
        return base64.b64encode(v).decode()
    if isinstance(v, (set, frozenset)):
        return list(v)
    if isinstance(v, collections.abc.Mapping):
        return dict(v)
    raise TypeError(f"{type(v).__name__} is none of what JSON has")


_SCALARS: dict[Any, typing.Callable[[str], Any]] = {
    datetime: lambda s: datetime.fromisoformat(s.replace("Z", "+00:00")),
    date: date.fromisoformat,
    UUID: UUID,
    bytes: lambda s: base64.b64decode(s, validate=True),
}


def revive(of: Any, v: Any, where: str) -> Any:
    """Convert a JSON value to a type; a TypeError names the place that does not fit."""
    origin = typing.get_origin(of)
    if of is Any or of is object or isinstance(of, (TypeVar, str)):
        return v
    if of is None or of is type(None):
        return _want(v is None, None, "nothing", v, where)
    if origin in (typing.Union, types.UnionType):
        return _union(of, v, where)
    if origin is typing.Literal:
        return _want(v in typing.get_args(of), v, f"one of {typing.get_args(of)}", v, where)
    if origin in (typing.Annotated, typing.Final) or str(origin).endswith("Required"):
        return revive(typing.get_args(of)[0], v, where)
    if origin is not None:
        return _container(origin, typing.get_args(of), v, where)
    if not isinstance(of, type):
        return v
    return _instance(of, v, where)


def _want(ok: bool, value: Any, wanted: str, got: Any, where: str) -> Any:
    if not ok:
        raise TypeError(f"{where}: want {wanted}, got {json.dumps(got)[:80]}")
    return value


def _union(of: Any, v: Any, where: str) -> Any:
    faults = []
    # Types that JSON has itself are tried before those made from a string.
    for part in sorted(typing.get_args(of), key=lambda a: a is not type(v)):
        try:
            return revive(part, v, where)
        except (TypeError, ValueError) as e:
            faults.append(str(e))
    raise TypeError("; ".join(faults))


def _container(origin: Any, args: tuple[Any, ...], v: Any, where: str) -> Any:
    if origin is tuple and not (len(args) == 2 and args[1] is ...):
        _want(isinstance(v, list) and len(v) == len(args), v, f"{len(args)} items", v, where)
        return tuple(
            revive(a, x, f"{where}[{i}]") for i, (a, x) in enumerate(zip(args, v, strict=True))
        )
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        _want(isinstance(v, dict), v, "an object", v, where)
        key, value = args
        return {
            revive(key, k if key is not int else int(k), where): revive(value, x, f"{where}.{k}")
            for k, x in v.items()
        }
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        _want(isinstance(v, list), v, "a list", v, where)
        items = [revive(args[0], x, f"{where}[{i}]") for i, x in enumerate(v)]
        return origin(items) if origin in (tuple, set, frozenset) else items
    if dataclasses.is_dataclass(origin):
        return _fields(origin, v, where)
    return v


def _instance(of: type, v: Any, where: str) -> Any:
    if dataclasses.is_dataclass(of):
        return _fields(of, v, where)
    if typing.is_typeddict(of):
        return _typed_dict(of, v, where)
    if _pydantic(of):
        return cast(Any, of).model_validate(v)
    if issubclass(of, enum.Enum):
        return of(v)
    if of in _SCALARS:
        _want(isinstance(v, str), v, f"a {of.__name__} as text", v, where)
        return _SCALARS[of](v)
    if of is timedelta:
        _want(isinstance(v, (int, float)), v, "seconds", v, where)
        return timedelta(seconds=v)
    if of is float:
        return float(_want(isinstance(v, (int, float)) and v is not True and v is not False, v,
                           "a number", v, where))  # fmt: skip
    if of in (set, frozenset, tuple):
        return of(_want(isinstance(v, list), v, "a list", v, where))
    ok = isinstance(v, of) and not (of is int and isinstance(v, bool))
    return _want(ok, v, f"{of.__name__}", v, where)


def _fields(of: Any, v: Any, where: str) -> Any:
    _want(isinstance(v, dict), v, f"an object of {of.__name__}", v, where)
    hints = typing.get_type_hints(of)
    given = {}
    for f in dataclasses.fields(of):
        if not f.init:
            continue
        if f.name in v:
            given[f.name] = revive(hints.get(f.name, Any), v[f.name], f"{where}.{f.name}")
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise TypeError(f"{where}.{f.name} is missing")
    return of(**given)


def _typed_dict(of: Any, v: Any, where: str) -> Any:
    _want(isinstance(v, dict), v, f"an object of {of.__name__}", v, where)
    hints = typing.get_type_hints(of)
    for name in of.__required_keys__:
        if name not in v:
            raise TypeError(f"{where}.{name} is missing")
    return {k: revive(hints[k], x, f"{where}.{k}") if k in hints else x for k, x in v.items()}
