"""How objects are to be kept, and where they are: ReplicateConfig, ReplicaDescriptor."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class SoftPinAction(IntEnum):
    """Accepted; a Moonpool has no soft pins."""

    PRESERVE = 0
    ENABLE = 1
    DISABLE = 2


class ObjectDataType(IntEnum):
    """Accepted; a Moonpool keeps bytes of all kinds alike."""

    UNKNOWN = 0
    KVCACHE = 1
    TENSOR = 2
    WEIGHT = 3
    SAMPLE = 4
    ACTIVATION = 5
    GRADIENT = 6
    OPTIMIZER_STATE = 7
    METADATA = 8
    GENERAL = 9


class ReplicaStatus(IntEnum):
    """Of a replica that can be read: always COMPLETE here."""

    UNDEFINED = 0
    INITIALIZED = 1
    PROCESSING = 2
    COMPLETE = 3
    REMOVED = 4
    FAILED = 5


@dataclass(slots=True)
class ReplicateConfig:
    """How a put's object is to be kept. An unknown field is an AttributeError.

    Attributes:
        replica_num: Copies on different nodes, at least 1; with fewer nodes as many as there are.
        prefer_alloc_in_same_node: Refused (-600) but in multi-buffer puts, as the original does.
        group_ids: One per key of a batch, or None. Their number is checked; a Moonpool learns what
            belongs together from chains of keys.
        with_hard_pin, with_soft_pin, soft_pin_action, soft_pin_ttl_ms: A Moonpool has no pins.
            Whoever asks for one is warned once.
        preferred_segments, preferred_segment, preferred_nof_segments: A Moonpool puts objects onto
            the writer's own host where there is a node.
        nof_replica_num, dfs_replica_num, data_type: Without a meaning here.
    """

    replica_num: int = 1
    nof_replica_num: int = 0
    dfs_replica_num: int = 0
    soft_pin_action: SoftPinAction = SoftPinAction.PRESERVE
    soft_pin_ttl_ms: int | None = None
    with_soft_pin: bool = False
    with_hard_pin: bool = False
    preferred_segments: list[str] = field(default_factory=list)
    preferred_nof_segments: list[str] = field(default_factory=list)
    preferred_segment: str = ""
    prefer_alloc_in_same_node: bool = False
    data_type: ObjectDataType = ObjectDataType.UNKNOWN
    group_ids: list[str] | None = None

    def is_pinned(self) -> bool:
        """Whether it asks for what a Moonpool does not promise: never to evict the object."""
        return (self.with_hard_pin or self.with_soft_pin
                or self.soft_pin_action == SoftPinAction.ENABLE)


@dataclass(frozen=True, slots=True)
class BufferDescriptor:
    """One stretch of a replica.

    Attributes:
        size: Bytes of the object.
        buffer_address: 0: an address means nothing outside of the node.
        transport_endpoint: The node's name, as ``/get_all_segments`` and ``moonpool nodes`` list
            it; of an object that is striped over several, the first one's.
    """

    size: int
    buffer_address: int
    transport_endpoint: str


@dataclass(frozen=True, slots=True)
class MemoryDescriptor:
    """Where a replica in memory is."""

    buffer_descriptor: BufferDescriptor


@dataclass(frozen=True, slots=True)
class ReplicaDescriptor:
    """One replica that can be read now. All of a Moonpool's are in memory."""

    status: ReplicaStatus
    memory: MemoryDescriptor

    def is_memory_replica(self) -> bool:
        return True

    def is_disk_replica(self) -> bool:
        return False

    def is_local_disk_replica(self) -> bool:
        return False

    def get_memory_descriptor(self) -> MemoryDescriptor:
        return self.memory

    def get_disk_descriptor(self) -> object:
        """Raises RuntimeError: there is none."""
        raise RuntimeError("the replica is in memory: it has no disk descriptor")


def replicas_of(nbytes: int, replicas: list[list[str]]) -> list[ReplicaDescriptor]:
    """Descriptors for what ``moonpool.Client.describe`` says."""
    return [
        ReplicaDescriptor(
            ReplicaStatus.COMPLETE,
            MemoryDescriptor(BufferDescriptor(nbytes, 0, nodes[0] if nodes else "")))
        for nodes in replicas
    ]
