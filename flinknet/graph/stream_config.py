"""StreamConfig: the configuration of an operator in a task, as plain data for other processes.

Functions are not serialised. The program is: hashes of nodes are the same wherever it is built, so
a process that runs it again finds each operator by its id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

STATE_BACKEND = "hashmap"
"""Flink's name of the backend of keyed state: a dict in the memory of the operator."""


@dataclass(frozen=True, slots=True)
class ChainedOutput:
    """An edge to an operator of the same chain."""

    operator_id: str
    input_number: int
    output_tag: str | None


@dataclass(frozen=True, slots=True)
class NonChainedOutput:
    """An edge that leaves the chain (Flink: NonChainedOutput). Edges of a blocking output may share
    one data set; then their data set ids are equal.

    Attributes:
        edge_id: name of the edge in the StreamGraph.
        operator_id: the operator that writes it.
    """

    edge_id: str
    operator_id: str
    data_set_id: str
    partitioner: str
    partition_type: str
    buffer_timeout_ns: int
    output_tag: str | None


@dataclass(frozen=True, slots=True)
class NetworkInput:
    """An edge that enters the chain from another vertex."""

    edge_id: str
    data_set_id: str
    operator_id: str
    input_number: int


@dataclass(slots=True)
class StreamConfig:
    """One operator of a chain; the head's contains the others (Flink: StreamConfig).

    Attributes:
        chain_index: position in the chain; 1 for heads, 0 for chained sources.
        key_selector: name of the function that returns the key of a record; empty: no keyed state.
        key_type: type of the keys, which determines their serializer; `state_backend`: where their
            state is kept.
        chained_outputs: edges to operators of the chain.
        outputs: of the head: all edges that leave the vertex, in order.
        inputs: of the head: all edges that enter the vertex, in order.
        chained: of the head: the other operators of the chain, by operator id.
    """

    operator_name: str
    operator_id: str
    chain_index: int
    is_chain_start: bool = False
    is_chain_end: bool = False
    input_types: tuple[str, ...] = ()
    output_type: str = "none"
    max_parallelism: int | None = None
    managed_memory_fraction: float = 0.0
    delay_ns_per_record: int = 0
    has_checkpoints: bool = False
    key_selector: str = ""
    key_type: str = ""
    state_backend: str = ""
    chained_outputs: list[ChainedOutput] = field(default_factory=list)
    outputs: list[NonChainedOutput] = field(default_factory=list)
    inputs: list[NetworkInput] = field(default_factory=list)
    chained: dict[str, StreamConfig] = field(default_factory=dict)

    def to_json(self) -> str:
        """Encode as JSON, for another process."""
        return json.dumps(self, default=_fields_of)

    @classmethod
    def from_json(cls, text: str) -> StreamConfig:
        """Decode the JSON of `to_json`."""
        return cls._from_dict(json.loads(text))

    @classmethod
    def _from_dict(cls, document: dict[str, Any]) -> StreamConfig:
        known = dict(document)
        known["input_types"] = tuple(known["input_types"])
        known["chained_outputs"] = [ChainedOutput(**each) for each in known["chained_outputs"]]
        known["outputs"] = [NonChainedOutput(**each) for each in known["outputs"]]
        known["inputs"] = [NetworkInput(**each) for each in known["inputs"]]
        known["chained"] = {
            operator_id: cls._from_dict(each) for operator_id, each in known["chained"].items()
        }
        return cls(**known)


def _fields_of(
    part: StreamConfig | ChainedOutput | NonChainedOutput | NetworkInput,
) -> dict[str, Any]:
    """What json asks for; a third of the time that dataclasses.asdict takes, which copies."""
    return {name: getattr(part, name) for name in part.__slots__}
