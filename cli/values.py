"""Values as people type them: JSON if it is JSON, else the text itself."""

from __future__ import annotations

import json
import math
from typing import Any


def value_of(text: str) -> Any:
    """Return the JSON value that a text is, else the text: `3` is a number, `three` a text."""
    try:
        return json.loads(text, parse_constant=_no_json, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


def _no_json(constant: str) -> None:
    raise ValueError(constant)
