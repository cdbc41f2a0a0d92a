"""What an operator may set: a TOML file, then `WAKEFUL_*` of the environment, then arguments.

Later ones win. An unknown or badly typed setting is an error that names it; nothing is ignored.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PREFIX: Final = "WAKEFUL_"


class Settings(BaseModel):
    """The settings of one engine process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data_dir: Path = Field(default=Path("data"), description="where the embedded database lives")
    database_url: str | None = Field(default=None, description="a PostgreSQL of your own, 15+")
    host: str = Field(default="127.0.0.1", description="address to serve on")
    port: int = Field(default=8765, ge=0, le=65_535, description="0 takes a free one")
    metrics_port: int | None = Field(
        default=None, ge=0, le=65_535, description="serve /metrics there, to everybody who asks"
    )
    socket: Path | None = Field(default=None, description="serve on this Unix socket instead")
    ready_file: Path | None = Field(default=None, description="gets the URL once it serves")
    sweep_seconds: float | None = Field(default=None, gt=0, description="W-072, else 30")
    sweep_idle_after: float = Field(default=600, gt=0, description="seconds, W-074")
    max_resident: int | None = Field(default=None, ge=1, description="issue actors in memory")
    stop_grace_seconds: float | None = Field(default=None, ge=0, description="S-077, else 25")


class SettingError(ValueError):
    """A setting that cannot be used; `field` names it, the text says why."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def load(
    arguments: Mapping[str, Any],
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings of these sources; an argument that is None was not given.

    `WAKEFUL_URL`, `WAKEFUL_TOKEN` and `WAKEFUL_WORKSPACE` belong to clients and are passed over,
    as is every other name that is no setting. Raises `SettingError`.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values |= tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SettingError("config", f"{file} cannot be read: {error}") from error
    for name in Settings.model_fields:
        text = environment.get(PREFIX + name.upper())
        if text is not None:
            values[name] = text
    values |= {name: value for name, value in arguments.items() if value is not None}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise SettingError(field, f"{field}: {first['msg']}") from None
