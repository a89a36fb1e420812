"""How a channel is called in tables and views."""

from __future__ import annotations

from flinknet.results import ChannelMeasured, ChannelProgress


def channel_name(channel: ChannelMeasured | ChannelProgress, *, has_edges: bool) -> str:
    """Its two ends, its edge where there are several, and whether it is local."""
    edge = f"edge {channel.edge}: " if has_edges else ""
    local = " local" if channel.is_local else ""
    return f"{edge}{channel.producer} → {channel.consumer}{local}"
