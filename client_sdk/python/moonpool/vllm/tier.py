"""The pool as a secondary tier of vLLM's tiered KV offloading.

    --kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
      "kv_connector_extra_config": {"spec_name": "TieringOffloadingSpec",
        "cpu_bytes_to_use": 10737418240,
        "secondary_tiers": [{"type": "moonpool", "masters": "10.0.0.1:7400",
          "model": "llama-3.1-8b", "revision": "v1"}]}}'

vLLM copies blocks between the GPU and rows of host memory, the primary tier. This tier copies whole
rows between there and the pool, without a buffer in between. One object is one chunk of all
workers; its key is `g<group>/<hash>`.

Everything here runs on the scheduler's thread and returns at once; see `TierCore`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import moonpool
from typing_extensions import override
from vllm.config import get_current_vllm_config_or_none
from vllm.v1.kv_offload.base import (
    Locality,
    LookupResult,
    Medium,
    OffloadingEvent,
    OffloadKey,
    ReqContext,
    RequestOffloadingContext,
    ScheduleEndContext,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob
from vllm.v1.metrics.cache_hit_source import CacheHitSource
from vllm.version import __version__ as vllm_version

from . import engine
from .layout import Layout, PrivateHashes, check_hashes
from .options import LEFT, Options
from .pool import Pool, connector, probe
from .tier_core import TierCore

# What a tier cannot see of how the model is run, and decides on bytes, beside the model itself.
UNTOLD = (
    "--max-model-len", "--hf-overrides", "--dtype", "--quantization", "--quantization-config",
    "--load-format", "--kv-cache-dtype-skip-layers", "--mamba-cache-dtype",
    "--mamba-ssm-cache-dtype", "--mamba-block-size", "--mamba-backend", "--attention-backend",
    "--attention-config", "--speculative-config")

if TYPE_CHECKING:
    from vllm.v1.kv_offload.base import OffloadingSpec
    from vllm.v1.kv_offload.config import OffloadingConfig
    from vllm.v1.kv_offload.tiering.backpressure import BackpressureDetector


def run_fields(spec: OffloadingSpec, options: Options) -> dict[str, object]:
    """How the model is run, by vLLM's configuration. Mostly there is none that a tier could see;
    then the options stand for it, and ValueError says which are missing."""
    told = get_current_vllm_config_or_none()
    if told is not None:
        return engine.model_fields(told, options)
    if not (options.model and options.revision):
        raise ValueError(
            'moonpool: set "model" and "revision" of the tier: vLLM does not tell it which weights '
            "it runs, nor how. Give another revision for other weights, and for other values of "
            f"{', '.join(UNTOLD)}")
    if spec.config.parallel.dcp_size > 1 and not options.cp_kv_cache_interleave_size:
        raise ValueError(
            'moonpool: set "cp_kv_cache_interleave_size" of the tier to the value that vLLM has '
            "for it (1 unless it was set): with decode context parallelism it decides which tokens "
            "of a block are whose, and vLLM does not tell it")
    return {"model": options.model, "revision": options.revision,
            "interleave": options.cp_kv_cache_interleave_size}


def layout_of(
    spec: OffloadingSpec, options: Options, row_bytes: int, run: Mapping[str, object]
) -> Layout:
    """Everything that decides on the bytes of a row. To be called when a request has come in.

    run: run_fields().
    """
    config = spec.config
    return Layout({
        "kind": "tier",
        "version": vllm_version,
        "device": engine.device_name(),
        "tag": options.tag,
        **run,
        "dtype": config.model.dtype,
        "page_tokens": _page_tokens(config),
        "hash_tokens": config.cache.tokens_per_hash,
        "blocks_per_chunk": config.cache.blocks_per_chunk,
        "groups": [(g.tokens_per_block, *g.layer_names) for g in config.groups],
        "row_bytes": row_bytes,
        "layout": config.kv_cache_layout,
        "canonical": config.canonical_layout,
        "replicated": config.replicated_layout,
        "hashes": engine.root_name(engine.algorithm_in_use()),
        **engine.parallel_fields(config.parallel),
    })


def _page_tokens(config: OffloadingConfig) -> int | None:
    """Tokens of an object; None where that depends on the group."""
    tokens = {group.tokens_per_block for group in config.groups}
    return tokens.pop() * config.cache.blocks_per_chunk if len(tokens) == 1 else None


def _or(otherwise: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a method of the tier give this instead of raising; the tier is off from then on."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def guarded(self: MoonpoolTier, *arguments: Any) -> Any:
            try:
                return method(self, *arguments)
            except Exception:  # noqa: BLE001: in the scheduler it would end the engine
                self._fail(method.__name__)
                return otherwise

        return guarded

    return decorate


class MoonpoolTier(SecondaryTierManager):
    """vLLM's interface to a tier, on top of a TierCore."""

    # What events say of where a block is; there is no word for memory elsewhere.
    medium: ClassVar[Medium | None] = Medium.STORAGE
    cache_hit_source: ClassVar[CacheHitSource] = CacheHitSource.EXTERNAL_UNSPECIFIED

    def __init__(
        self,
        offloading_spec: OffloadingSpec,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: BackpressureDetector | None = None,
        enable_kv_events: bool = False,
        locality: str | None = "REMOTE",
        **config: Any,
    ) -> None:
        """`config` holds the options of `Options`. Raises ValueError for wrong ones.

        That a master answers is looked at in the background; the namespace is opened with the first
        lookup or store, when there are hashes.
        """
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        self.locality = Locality(locality) if locality is not None else None
        self._options = Options.parse(config)
        self._spec = offloading_spec
        self._hashes_checked = False
        if (told := get_current_vllm_config_or_none()) is not None:
            self._check_hashes(told.cache_config.prefix_caching_hash_algo)
        self._run = run_fields(offloading_spec, self._options)
        self._results: list[JobResult] = []  # that vLLM has not taken yet
        self._events: list[OffloadingEvent] | None = None
        if enable_kv_events and offloading_spec.kv_events_config.enable_kv_cache_events:
            self._events = []
        pool = Pool(self._connect, self._options, log=engine.warn)
        self._core = TierCore(primary_kv_view, pool, self._options)
        self._core.first(self._greet)

    def _greet(self) -> None:
        """Says at start whether a master answers; its absence is no reason not to start."""
        probe(self._options, engine.warn, lambda: engine.log_answer(self._options))

    def _connect(self) -> Any:
        """Makes the client: on a worker thread, when a request has come in and hashes exist."""
        layout = layout_of(self._spec, self._options, self.block_size_bytes, self._run)
        namespace = layout.namespace(self._options.namespace)
        engine.logger.info("moonpool: tier in namespace %s", namespace)
        fingerprint = moonpool.fingerprint(**layout.fingerprint_fields())
        return connector(namespace, fingerprint, self._options, engine.warn)()

    def _check_hashes(self, algorithm: str) -> None:
        self._hashes_checked = True
        check_hashes(algorithm, root_known=engine.root_is_known(algorithm),
                     allow_private=self._options.allow_private_hashes)

    @override
    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        if not self._hashes_checked:  # a tier is not told the algorithm; by now it shows
            try:
                self._check_hashes(engine.algorithm_in_use())
            except PrivateHashes as error:  # too late to refuse to start
                engine.logger.error("%s The tier is off: nothing is stored or loaded.", error)
                self._core.leave()
            except Exception:  # noqa: BLE001: as with _or
                self._fail("on_new_request")
        return RequestOffloadingContext()

    def _fail(self, what: str) -> None:
        """Turns the tier off, within an exception that nobody thought of."""
        engine.logger.exception("moonpool: %s failed; please report this. The tier is off: nothing "
                                "is stored or loaded.", what)
        self._core.leave()

    @override
    @_or(LookupResult.MISS)
    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        found = self._core.lookup(key, req_context.req_id)
        if found is None:
            return LookupResult.RETRY
        return LookupResult.HIT if found else LookupResult.MISS

    @override
    def submit_load(self, job_metadata: TransferJob) -> None:
        job = job_metadata
        self._submit(job, lambda: self._core.load(job.job_id, list(job.keys), job.chunk_ids))

    @override
    def submit_store(self, job_metadata: TransferJob) -> None:
        job, context = job_metadata, job_metadata.req_context
        self._submit(job, lambda: self._core.store(
            job.job_id, list(job.keys), job.chunk_ids, context.req_id,
            context.get_offload_key_position))

    def _submit(self, job: TransferJob, begin: Callable[[], None]) -> None:
        """Every job has a result: also one that could not begin."""
        try:
            begin()
        except Exception:  # noqa: BLE001: as with _or
            self._results.append(JobResult(job_id=job.job_id, success=False))
            self._fail("submit_load" if job.is_promotion else "submit_store")

    @override
    @_or(())
    def get_finished_jobs(self) -> Iterable[JobResult]:
        for done, keys in self._core.finished():
            there = [OffloadKey(key) for key, ok in zip(keys, done.ok) if ok]
            whole = len(there) == len(keys)
            self._results.append(JobResult(
                job_id=done.tag,
                success=whole,
                successful_keys=there if done.load and not whole else None,
                transfer_time=done.seconds,
                transfer_bytes=done.moved_bytes,
            ))
            if there and not done.load and self._events is not None:
                self._events.append(OffloadingEvent(
                    keys=there, medium=Medium.STORAGE, removed=False, locality=self.locality,
                    ownership=self.tier_type))
        results, self._results = self._results, []
        return results

    @override
    def has_pending_work(self) -> bool:
        return self._core.running > 0 or bool(self._results)

    @override
    def take_events(self) -> Iterable[OffloadingEvent]:
        if self._events:
            events, self._events = self._events, []
            yield from events

    @override
    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Nothing: the pool learns of use from lookups and loads."""

    @override
    @_or(None)
    def on_request_finished(self, req_context: ReqContext) -> None:
        self._core.forget(req_context.req_id)

    @override
    @_or(None)
    def on_schedule_end(self, context: ScheduleEndContext) -> None:
        self._core.end_step()

    @override
    def drain_jobs(self) -> None:
        """Leaves the pool: vLLM calls this when it resets its caches, and then only. The weights
        may be others from now on, and nobody says which."""
        if self._options.fixed_weights:
            self._core.cut_off()
            return
        if self._core.leave():
            engine.warn(LEFT)

    @override
    def shutdown(self) -> None:
        self._core.close()
