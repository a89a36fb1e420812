"""Lists of channels on the command line."""

from __future__ import annotations

from flinknet.errors import ConfigError


def parse_channels(text: str) -> list[int]:
    """The numbers in a list such as "0,3"."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--channel: {text!r} is not a list of channel numbers, such as 0,3")
    return [int(part) for part in parts]
