"""Groups of commands: a name that is not one of them gets the nearest that is."""

from __future__ import annotations

import difflib

import click


class CommandGroup(click.Group):
    """A group that lists its commands in the order they were added in."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises: click.UsageError for a command that there is not."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            self.refuse(ctx, args[0])
        return super().resolve_command(ctx, args)

    def refuse(self, ctx: click.Context, name: str) -> None:
        """Raises: click.UsageError that says which command may have been meant."""
        near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        ctx.fail(f"No such command {name!r}.{hint}")
