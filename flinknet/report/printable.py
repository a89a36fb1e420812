"""Text from files on its way to a terminal: nothing in it may move the cursor or change colours."""

from __future__ import annotations

_CONTROLS = (
    *(each for each in range(0x20) if chr(each) not in "\t\n"),
    *range(0x7F, 0xA0),
    *range(0x202A, 0x202F),  # these two turn the direction of what follows
    *range(0x2066, 0x206A),
)
_WITHOUT_CONTROLS = dict.fromkeys(_CONTROLS)


def printable(text: str) -> str:
    """The text without control characters other than line ends and tabs."""
    return text.translate(_WITHOUT_CONTROLS)
