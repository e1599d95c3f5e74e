"""Writes or checks zones.json: the offsets of 40 zones over five years, as Python's zoneinfo reads them.

    python3 zones.py WHEEL            writes zones.json from the wheel of the PyPI package tzdata
    python3 zones.py --check WHEEL    writes nothing, and fails where zones.json differs
"""

import datetime
import io
import json
import pathlib
import sys
import zipfile
import zoneinfo

ZONES = """Africa/Cairo Africa/Casablanca Africa/El_Aaiun Africa/Johannesburg Africa/Lagos America/Anchorage
America/Asuncion America/Chicago America/Denver America/Edmonton America/Halifax America/Havana America/Inuvik
America/Los_Angeles America/Mexico_City America/New_York America/Rainy_River America/Santiago America/Sao_Paulo
America/St_Johns America/Tijuana America/Vancouver America/Winnipeg America/Yellowknife Antarctica/Troll Asia/Beirut
Asia/Gaza Asia/Jerusalem Asia/Kolkata Asia/Shanghai Asia/Tokyo Atlantic/Azores Australia/Lord_Howe Australia/Sydney
Canada/Pacific Europe/Berlin Europe/Chisinau Europe/Dublin Europe/Tiraspol Pacific/Auckland""".split()

UTC = datetime.timezone.utc
START, END = datetime.datetime(2025, 1, 1, tzinfo=UTC), datetime.datetime(2030, 1, 1, tzinfo=UTC)


def offset(zone, at):
    return int(datetime.datetime.fromtimestamp(at, zone).utcoffset().total_seconds())


def changes(zone):
    """Returns [Unix time, offset in seconds] of START and of each later change: it looks every hour, then bisects."""
    at, end = int(START.timestamp()), int(END.timestamp())
    last = offset(zone, at)
    found = [[at, last]]
    for later in range(at + 3600, end, 3600):
        now = offset(zone, later)
        if now != last:
            low, high = later - 3600, later
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(zone, middle) == last else (low, middle)
            found.append([high, now])
            last = now
    return found


def main(arguments):
    check = arguments[:1] == ["--check"]
    wheel = zipfile.ZipFile(arguments[-1])
    version = wheel.read("tzdata/zoneinfo/tzdata.zi").split(b"\n", 1)[0].decode().removeprefix("# version ")
    zones = {}
    for name in ZONES:
        data = io.BytesIO(wheel.read("tzdata/zoneinfo/" + name))
        zones[name] = changes(zoneinfo.ZoneInfo.from_file(data, key=name))
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(zones[name])}" for name in sorted(zones))
    text = f'{{"release": "{version}", "start": {int(START.timestamp())}, "end": {int(END.timestamp())}, "zones": {{\n{lines}\n}}}}\n'
    path = pathlib.Path(__file__).with_name("zones.json")
    if not check:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"zones.json differs from tzdata {version}: change internal/cron/tzdata.txt and run `make tzdata`")


main(sys.argv[1:])
