"""Edges of a run with several exchanges, and their channels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from flinknet.arrays import FloatArray, IntArray
from flinknet.predict.exchange import recorded_network
from flinknet.results.ledger import BARRIER, LATE, UNANSWERED, EdgeTime, InputTime
from flinknet.trace import RunManifest
from flinknet.trace.job_names import edges_in_flow

from ..read import RecordedRun

NOT_FROM_SOURCES = (
    "its records come when the task before it has processed them, not at instants of their own; its"
    " predictions are with those of the job from end to end"
)


def is_from_sources(manifest: RunManifest, edge: int | None) -> bool:
    """Whether the records of an edge came at instants of their own, or were captured."""
    if edge is None or manifest.is_from_between:
        return True
    edges = edges_in_flow(manifest)
    own = next(each for each in edges if each.index == edge)
    return all(each.target != own.source for each in edges)


def channel_ends(manifest: RunManifest) -> tuple[IntArray, IntArray, IntArray]:
    """The channels of a manifest with the subtasks at their ends: index, producer, consumer."""
    channels = manifest.channels
    index, producer, consumer = (
        np.fromiter((getattr(each, name) for each in channels), np.int64, len(channels))
        for name in ("index", "producer", "consumer")
    )
    return index, producer, consumer


def pair_keys(producer: IntArray, consumer: IntArray) -> IntArray:
    return producer * (1 << 32) + consumer


class Pairs:
    """The producers and consumers of an edge, as columns. Several channels between two tasks, as
    after a restart, are one pair, which stands for the newest of them.

    Attributes:
        channel: all channels, one by one.
        producer, consumer, is_local, keys: of the pairs.
    """

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self.channel, producer, consumer = channel_ends(run.manifest)
        is_known = (producer >= 0) & (consumer >= 0)
        keys = np.where(is_known, pair_keys(producer, consumer), -1 - self.channel)
        distinct, first, place = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self._place = rank[place]
        self._newest = np.zeros(len(distinct), np.int64)
        np.maximum.at(self._newest, self._place, np.arange(len(keys)))
        self.keys = distinct[order]
        self.producer, self.consumer = producer[self._newest], consumer[self._newest]
        infos = run.manifest.channels
        self.is_local = np.fromiter((infos[each].is_local for each in self._newest), bool)

    def summed(self, values: IntArray) -> IntArray:
        """Values of channels as those of pairs."""
        found = np.zeros(len(self.keys), np.int64)
        np.add.at(found, self._place, values)
        return found

    def edge(
        self, records: IntArray, shares: Mapping[str, FloatArray], *, mean: Iterable[str]
    ) -> EdgeTime:
        """The edge of the pairs: their shares by consumer.

        Args:
            mean: names of shares whose mean counts, too.
        """
        infos, ends = self._run.manifest.channels, self._run.ends
        network = recorded_network(self._run.manifest)
        inputs = []
        order = np.argsort(self.consumer, kind="stable")
        consumers, starts = np.unique(self.consumer[order], return_index=True)
        for consumer, own in zip(consumers.tolist(), np.split(order, starts[1:]), strict=True):
            at = {name: share[own] for name, share in shares.items()}
            latest = own[int(np.argmax(at.get(LATE, at[BARRIER])))]
            info = infos[int(self._newest[latest])]
            inputs.append(
                InputTime(
                    consumer,
                    info.consumer_process,
                    len(own),
                    int(records[own].sum()),
                    {name: float(at[name].mean()) for name in mean},
                    {
                        name: float(each.min() if name == UNANSWERED else each.max())
                        for name, each in at.items()
                    },
                    info.producer_process,
                    info.producer,
                    info.connection,
                    info.producer_process.startswith("127."),
                )
            )
        producers, place = np.unique(self.producer, return_inverse=True)
        total = np.zeros(len(producers), np.int64)
        np.add.at(total, place, records)
        sent = dict(zip(producers.tolist(), total.tolist(), strict=True))
        most = int(records.argmax())
        busiest = infos[int(self._newest[most])]
        return EdgeTime(
            ends.source,
            ends.target,
            ends.name,
            ends.source_name,
            inputs,
            sent,
            (busiest.index, busiest.producer, busiest.consumer, int(records[most])),
            buffers=network.exclusive_buffers
            + network.floating_buffers * len(inputs) / max(len(self.keys), 1),
        )
