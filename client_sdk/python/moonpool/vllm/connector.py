"""A KV connector of vLLM that moves blocks straight between the engine's KV cache and the pool.

    --kv-transfer-config '{"kv_connector": "MoonpoolConnector",
      "kv_connector_module_path": "moonpool.vllm.connector", "kv_role": "kv_both",
      "kv_load_failure_policy": "recompute",
      "kv_connector_extra_config": {"masters": "10.0.0.1:7400"}}'

For KV caches in host memory (vLLM on CPUs), and models whose layers all attend to the whole prompt.
With GPUs, and for hybrid models, `moonpool.vllm.tier` is the way.

vLLM makes one instance for its scheduler, which plans (`Planner`), and one in each worker, which
moves (`Mover`). I/O and lookups run in threads of their own; a step never waits for the pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import moonpool
import torch
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)
from vllm.distributed.parallel_state import get_pp_group, get_tp_group
from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    group_kernel_blocks,
    iter_layer_specs,
)
from vllm.version import __version__ as vllm_version

from . import engine
from .blocks import HostBlocks, Layer, dense_runs
from .layout import Layout, check_hashes, shard_part
from .lookups import MatchTable
from .mover import Ended, Mover
from .options import LEFT, SAVE_PROMPT, Options
from .planner import Load, Planner, Save, Settings, max_pinned_blocks
from .pool import Pool, connector
from .transfers import Transfers
from .workers import Workers

if TYPE_CHECKING:
    from vllm.forward_context import ForwardContext
    from vllm.v1.attention.backend import AttentionMetadata
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.outputs import KVConnectorOutput
    from vllm.v1.request import Request


@dataclass
class StepWork(KVConnectorMetadata):
    """From the scheduler to the workers: what a step is to load and to save.

    cut_off: end the saves of earlier steps before this one writes; their blocks may be others' now.
    space: namespace and fingerprint. The scheduler says it, as what a worker knows of the model may
    have been changed by loading it.
    """

    loads: list[Load] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    cut_off: bool = False
    space: tuple[str, str] = ("", "")


@dataclass
class StepReport(KVConnectorWorkerMetadata):
    """From the workers to the scheduler: how many of them ended each save, and failed loads."""

    saved: Counter[int] = field(default_factory=Counter)
    lost: set[str] = field(default_factory=set)

    def aggregate(self, other: KVConnectorWorkerMetadata) -> StepReport:
        """Both reports as one."""
        assert isinstance(other, StepReport)
        return StepReport(self.saved + other.saved, self.lost | other.lost)


class _BlockPoolPins:
    """Counts uses in vLLM's block pool, which gives blocks away when nobody uses them."""

    def __init__(self) -> None:
        self.pool: BlockPool | None = None
        self._count: Counter[int] = Counter()

    def bind(self, pool: BlockPool, let_go: Callable[[], None]) -> None:
        """let_go() runs before a reset of the pool that fails because of these pins only.

        vLLM resets its cache for other weights, and takes it for an error when it cannot. A
        connector is told afterwards, which is too late; hence the call is put in between here.
        """
        self.pool = pool
        reset = pool.reset_prefix_cache

        def reset_prefix_cache() -> bool:
            used = pool.num_gpu_blocks - pool.get_num_free_blocks() - 1  # one is never given away
            if used == sum(pool.blocks[b].ref_cnt == n for b, n in self._count.items()):
                let_go()
            return bool(reset())

        pool.reset_prefix_cache = reset_prefix_cache  # type: ignore[method-assign]

    def pin(self, blocks: Sequence[int]) -> None:
        """One more user of each block."""
        assert self.pool is not None
        self._count.update(blocks)
        self.pool.touch([self.pool.blocks[block] for block in blocks])

    def unpin(self, blocks: Sequence[int]) -> None:
        """One user less; the blocks of a chain's end are given away first."""
        assert self.pool is not None
        self._count -= Counter(blocks)  # drops what comes to 0
        self.pool.free_blocks([self.pool.blocks[block] for block in reversed(blocks)])


def check_supported(config: VllmConfig, cache: KVCacheConfig) -> None:
    """Raises ValueError for what this connector cannot do, naming what can."""
    groups = cache.kv_cache_groups
    specs = [spec for group in groups for spec in iter_layer_specs(group.kv_cache_spec)]
    if len(groups) != 1 or not all(isinstance(spec, FullAttentionSpec) for spec in specs):
        raise ValueError("moonpool: MoonpoolConnector takes models whose layers all attend to the "
                         "whole prompt; for hybrid models use the tier of moonpool.vllm.tier")
    if config.parallel_config.prefill_context_parallel_size > 1:
        raise ValueError("moonpool: MoonpoolConnector does not take prefill context parallelism")
    transfer = config.kv_transfer_config
    if transfer.is_kv_consumer and transfer.kv_load_failure_policy != "recompute":
        raise ValueError('moonpool: set "kv_load_failure_policy": "recompute" in '
                         "--kv-transfer-config; with vLLM's default a block that is lost between "
                         "lookup and load would fail the request instead of being computed")


def layout_of(config: VllmConfig, cache: KVCacheConfig, options: Options) -> Layout:
    """Everything that decides on the bytes of a block, as the scheduler knows it."""
    model, kept = config.model_config, config.cache_config
    block_tokens, hash_tokens = resolve_kv_cache_block_sizes(cache, config)
    stages = config.parallel_config.pipeline_parallel_size
    dtype = model.dtype if kept.cache_dtype == "auto" else kept.cache_dtype
    return Layout({
        "kind": "connector",
        "version": vllm_version,
        "device": engine.device_name(),
        "tag": options.tag,
        **engine.model_fields(config, options),
        "dtype": str(dtype).removeprefix("torch."),
        "page_tokens": block_tokens,
        "hash_tokens": hash_tokens,
        "layout": cache.kv_cache_layout,
        # Class, types, quantization and sizes of a layer; the settings stand for its neighbours.
        "spec": cache.kv_cache_groups[0].kv_cache_spec,
        # The scheduler does not know the layers of later stages; the configuration stands for them.
        "layers": cache.kv_cache_groups[0].layer_names if stages == 1 else "",
        "replicas_of_shard": cache.kv_tp_replicas,
        "hashes": engine.root_name(kept.prefix_caching_hash_algo),
        **engine.parallel_fields(config.parallel_config),
    })


class MoonpoolConnector(KVConnectorBase_V1, SupportsHMA):
    """vLLM's interface to a connector, on top of a Planner or a Mover."""

    def __init__(
        self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig
    ) -> None:
        """Raises ValueError for what cannot work; an absent pool is no reason."""
        super().__init__(vllm_config, role, kv_cache_config)
        options = Options.parse(self._kv_transfer_config.kv_connector_extra_config or {})
        check_supported(vllm_config, kv_cache_config)
        algorithm = vllm_config.cache_config.prefix_caching_hash_algo
        check_hashes(algorithm, root_known=engine.root_is_known(algorithm),
                     allow_private=options.allow_private_hashes)
        self._options = options
        self._space = StepWork().space
        self._pool = Pool(self._connect, options, log=engine.warn)
        self._pins = _BlockPoolPins()
        self._mover: Mover | None = None
        self._ended = Ended()
        if role == KVConnectorRole.SCHEDULER:
            layout = layout_of(vllm_config, kv_cache_config, options)
            namespace = layout.namespace(options.namespace)
            self._space = namespace, moonpool.fingerprint(**layout.fingerprint_fields())
            engine.logger.info("moonpool: connector in namespace %s", namespace)
            if vllm_config.weight_transfer_config is not None:
                engine.warn("moonpool: this engine gets new weights while it runs. Pause it with "
                            "clear_cache=True for that: otherwise nobody tells the pool, and "
                            "blocks of the new weights are taken for blocks of the old ones")
            self._lookups = Workers("moonpool-lookup", 2, options.queue)
            matches = MatchTable(self._pool, self._lookups)
            self._planner = Planner(self._settings(), matches, self._pins)
            self._lookups.submit(self._greet)

    def _greet(self) -> None:
        """Says at start whether there is a pool; its absence is no reason not to start."""
        if self._pool.reach():
            engine.log_answer(self._options)

    def _connect(self) -> Any:
        return connector(*self._space, self._options, engine.warn)()

    def _settings(self) -> Settings:
        config, cache, transfer = self._vllm_config, self._kv_cache_config, self._kv_transfer_config
        parallel = config.parallel_config
        block_tokens, hash_tokens = resolve_kv_cache_block_sizes(cache, config)
        shards = range(parallel.tensor_parallel_size // cache.kv_tp_replicas)
        stages = range(parallel.pipeline_parallel_size)
        return Settings(
            block_tokens=block_tokens,
            hash_tokens=hash_tokens,
            parts=[shard_part(shard, stage) for stage in stages for shard in shards],
            ranks=parallel.world_size,
            loads=transfer.is_kv_consumer,
            saves=transfer.is_kv_producer,
            prompt_only=self._options.save == SAVE_PROMPT,
            max_pinned=max_pinned_blocks(cache.num_blocks, self._options.max_pinned),
        )

    @property
    def requires_kv_delivery(self) -> bool:
        """False: a block that is not saved is a miss later, and nothing worse."""
        return False

    def shutdown(self) -> None:
        """Cuts off what is under way and closes the client."""
        self._pool.close()
        if self._mover is not None:
            self._mover.close()
        if self.role == KVConnectorRole.SCHEDULER:
            self._lookups.close()

    # In the scheduler.

    def bind_gpu_block_pool(self, gpu_block_pool: BlockPool) -> None:
        self._pins.bind(gpu_block_pool, self._planner.abandon)

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        try:
            return self._planner.matched(request, num_computed_tokens)
        except Exception:  # noqa: BLE001: what cannot be asked is a miss
            engine.logger.exception("moonpool: a lookup failed; please report this")
            return 0, False

    def update_state_after_alloc(
        self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int
    ) -> None:
        self._planner.allocated(request, blocks.get_block_ids()[0], num_external_tokens)

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> StepWork:
        state = scheduler_output.kv_connector_block_state

        def table_of(request: str) -> Sequence[int] | None:
            tables = state.get_block_ids(request) if state is not None else None
            return tables[0] if tables else None

        loads, saves = self._planner.plan(scheduler_output.num_scheduled_tokens, table_of)
        return StepWork(loads, saves, self._planner.take_cut_off(), self._space)

    def update_connector_output(self, connector_output: KVConnectorOutput) -> None:
        report = connector_output.kv_connector_worker_meta
        if isinstance(report, StepReport):
            self._planner.report(report.saved, report.lost)

    def has_pending_push_work(self) -> bool:
        return self._planner.saving

    def request_finished(
        self, request: Request, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished_all_groups(request, (block_ids,))

    def request_finished_all_groups(
        self, request: Request, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        self._planner.ended(request.request_id)
        return False, None

    def reset_cache(self) -> bool | None:
        """Leaves the pool: the weights may be others from now on, and nobody says which.

        What is in the pool belongs to all engines, and stays. True, as vLLM takes all else for a
        failure. None in a worker.
        """
        if self.role != KVConnectorRole.SCHEDULER:
            return None
        if not self._options.fixed_weights and self._planner.leave():
            engine.warn(LEFT)
        return True

    # In a worker.

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """The KV cache: one tensor per layer, the first dimension blocks (or parts of blocks)."""
        cache = self._kv_cache_config
        blocks = HostBlocks(layers_of(kv_caches, cache), _memory_at)
        replicas = cache.kv_tp_replicas  # neighbours with the same bytes, of which one is kept
        tensor, stage = get_tp_group().rank_in_group, get_pp_group().rank_in_group
        part = shard_part(tensor // replicas, stage)
        transfers = Transfers(
            self._pool,
            Workers("moonpool-move", self._options.threads, self._options.queue),
            slice_bytes=self._options.slice_bytes,
        )
        self._mover = Mover(blocks, transfers, part, writes=tensor % replicas == 0)
        engine.logger.info("moonpool: blocks of %d bytes in %d pieces, as %s", blocks.block_bytes,
                           blocks.pieces_per_block, part)

    def handle_preemptions(self, kv_connector_metadata: KVConnectorMetadata) -> None:
        """Before anything of the step is written."""
        assert isinstance(kv_connector_metadata, StepWork)
        if kv_connector_metadata.cut_off:
            self._moves().cut_off()

    def start_load_kv(self, forward_context: ForwardContext, **kwargs: Any) -> None:
        for load in self._work().loads:
            self._moves().load(load)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing: requests whose blocks are being loaded are not in the step."""

    def save_kv_layer(
        self,
        layer_name: str,
        kv_layer: torch.Tensor,
        attn_metadata: AttentionMetadata,
        **kwargs: Any,
    ) -> None:
        """Nothing: whole blocks of all layers are saved behind the step."""

    def wait_for_save(self) -> None:
        """Starts the step's saves. On a CPU the forward pass has written everything by now."""
        for save in self._work().saves:
            self._moves().save(save)

    def get_finished(
        self, finished_req_ids: set[str]
    ) -> tuple[set[str] | None, set[str] | None]:
        """Requests whose loads have ended. vLLM asks for the errors and the report right after."""
        self._ended = self._moves().ended()
        return None, self._ended.loaded or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        return self._ended.lost_blocks

    def build_connector_worker_meta(self) -> KVConnectorWorkerMetadata | None:
        ended, self._ended = self._ended, Ended()
        if not ended.saved and not ended.lost_requests:
            return None
        return StepReport(ended.saved, ended.lost_requests)

    def _work(self) -> StepWork:
        work = self._get_connector_metadata()
        assert isinstance(work, StepWork)
        self._space = work.space  # before the first load or save
        return work

    def _moves(self) -> Mover:
        assert self._mover is not None, "register_kv_caches comes first"
        return self._mover


def layers_of(kv_caches: dict[str, torch.Tensor], cache: KVCacheConfig) -> list[Layer]:
    """Where each layer's blocks lie, in the order of the cache group's layers.

    Raises ValueError for memory that a host cannot address.
    """
    layers = []
    for name in cache.kv_cache_groups[0].layer_names:
        if name not in kv_caches:  # shares the cache of another layer
            continue
        tensor = group_kernel_blocks(kv_caches[name], cache.num_blocks)
        if tensor.device.type != "cpu":
            raise ValueError(f"moonpool: MoonpoolConnector moves host memory, and layer {name} is "
                             f"on {tensor.device}; use the tier of moonpool.vllm.tier")
        item = tensor.element_size()
        runs = dense_runs(tensor.shape[1:], tensor.stride()[1:], item)
        layers.append(Layer(tensor.data_ptr(), tensor.stride(0) * item, tuple(runs), tensor))
    return layers


def _memory_at(address: int, nbytes: int, owner: Any) -> Any:
    return moonpool.Memory(address, nbytes, owner=owner)
