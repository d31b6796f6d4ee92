"""Events as a recorder would send them: valid by default, each argument changes one field."""

import json
import uuid
from typing import Any

NDJSON = "application/x-ndjson"
RECORDER = "0190aaaa-0000-7000-8000-000000000001"


def wire_event(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": str(uuid.UUID(int=(0x0190_0000_0000_7000_8000 << 48) + number)),
        "type": "state.reported",
        "schema_version": 1,
        "stream": "job-j1",
        "observed_at": "2026-12-01T05:00:00.123Z",
        "source": {"recorder": RECORDER, "seq": number, "site": "https://lab.example"},
        "data": {"job": {"id": "j1"}},
        **fields,
    }


def wire_text(number: int, data: bytes) -> bytes:
    """One event whose `data` is exactly this text."""
    text = json.dumps(wire_event(number, data="DATA"))
    return text.encode().replace(b'"DATA"', data)
