#!/usr/bin/env python3
"""Which engines meet in one namespace, by vLLM's own configuration: those with the same bytes.

    PYTHONPATH=build/dev/python PYTHON_OF_VLLM tests/engines/vllm_layout_test.py

Skipped, and said so, with a Python that has no vLLM (tests/engines/install.sh makes one).
"""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

try:
    import torch
    from moonpool.vllm import connector, engine, tier
    from moonpool.vllm.options import Options
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading import config as offloading
    from vllm.v1.kv_cache_interface import KVQuantMode
    from vllm.v1.kv_offload.config import OffloadingParallelConfig
    from vllm_fixture import BLOCK_TOKENS, cache_of, config_of, full, group, model_folder
except ImportError as missing:
    if __name__ == "__main__":
        print(f"skipped: {missing}", file=sys.stderr)
        sys.exit(77)
    raise unittest.SkipTest(str(missing)) from missing

Change = Callable[[Any], None]


def setting(part: str, name: str, value: Any) -> Change:
    """Sets one of vLLM's settings, past what its command line makes of it on a CPU."""
    return lambda config: setattr(getattr(config, part), name, value)


def nothing(config: Any) -> None:
    """Leaves the configuration as it is."""


class LayoutCase(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = self.enterContext(model_folder())

    def layouts(self, change: Change = nothing, **options: Any) -> tuple[Any, Any]:
        """Of the connector, and of a tier that is told vLLM's configuration."""
        config = config_of(self.folder)
        change(config)
        cache = cache_of(group(full(), "a", "b"))
        made = Options.parse({"masters": "a:1", **options})
        spec = SimpleNamespace(config=offloading.build_offloading_config(config, cache))
        with mock.patch.object(tier, "get_current_vllm_config_or_none", lambda: config):
            run = tier.run_fields(spec, made)
        return (connector.layout_of(config, cache, made),
                tier.layout_of(spec, made, 4096, run))

    def digests(self, change: Change = nothing, **options: Any) -> tuple[str, str]:
        first, second = self.layouts(change, **options)
        return first.digest, second.digest


class SettingsTest(LayoutCase):
    def test_each_setting_that_decides_on_bytes_is_another_namespace(self) -> None:
        changes = [nothing] + [setting(*change) for change in (
            ("cache_config", "cache_dtype", "fp8"),
            ("cache_config", "kv_cache_dtype_skip_layers", ["0"]),
            ("cache_config", "kv_cache_dtype_skip_layers", ["31"]),
            ("cache_config", "mamba_cache_dtype", "float16"),
            ("cache_config", "mamba_cache_dtype", "bfloat16"),
            ("cache_config", "mamba_ssm_cache_dtype", "float16"),
            ("cache_config", "mamba_ssm_cache_dtype", "bfloat16"),
            ("cache_config", "skip_page_size_padded", 4096),
            ("attention_config", "indexer_kv_dtype", "fp8"),
            ("mamba_config", "enable_stochastic_rounding", True),
            ("model_config", "quantization", "fp8"),
            ("model_config", "quantization_config", {"linear": "fp8"}),
            ("load_config", "load_format", "dummy"),
        )]
        for which, names in zip(("connector", "tier"), zip(*map(self.digests, changes))):
            with self.subTest(which):
                self.assertEqual(len(set(names)), len(changes))

    def test_how_much_is_kept_does_not_matter(self) -> None:
        same = self.digests()
        for name, value in {"num_gpu_blocks": 7, "gpu_memory_utilization": 0.5,
                            "kv_cache_size_tokens": 512, "kv_cache_memory_bytes": 1 << 20}.items():
            self.assertEqual(self.digests(setting("cache_config", name, value)), same, name)

    def test_the_spec_of_the_layers_counts(self) -> None:
        config, options = config_of(self.folder), Options.parse({"masters": "a:1"})

        def digest(**changes: Any) -> str:
            cache = cache_of(group(full(**changes), "a", "b"))
            return connector.layout_of(config, cache, options).digest

        digests = {digest(), digest(), digest(kv_quant_mode=KVQuantMode.FP8_PER_TENSOR),
                   digest(kv_quant_mode=KVQuantMode.FP8_PER_TOKEN_HEAD),
                   digest(page_size_padded=1 << 20)}
        self.assertEqual(len(digests), 4)

    def test_gpus_with_another_fp8_do_not_meet(self) -> None:
        def gpu(name: str, fp8: Any) -> Any:
            return mock.patch.object(engine, "current_platform", SimpleNamespace(
                device_type="cuda", device_name=name, fp8_dtype=lambda: fp8))

        names = set()
        for platform in (("cuda", torch.float8_e4m3fn), ("rocm", torch.float8_e4m3fn),
                         ("rocm", torch.float8_e4m3fnuz)):
            with gpu(*platform):
                names.add(engine.device_name())
        with gpu("rocm", torch.float8_e4m3fn), mock.patch.dict(
                os.environ, {"VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "1"}):
            names.add(engine.device_name())
        self.assertEqual(len(names), 4, names)


class ParallelTest(LayoutCase):
    def test_who_has_which_tokens_of_a_block_counts(self) -> None:
        def split(**sizes: int) -> Change:
            def change(config: Any) -> None:
                for name, value in sizes.items():
                    setattr(config.parallel_config, name, value)
            return change

        alone = {self.digests(split(cp_kv_cache_interleave_size=size)) for size in (1, 8)}
        self.assertEqual(len(alone), 1, "without context parallelism it means nothing")
        names = alone | {
            self.digests(split(decode_context_parallel_size=2, **sizes)) for sizes in (
                {}, {"cp_kv_cache_interleave_size": 8}, {"dcp_kv_cache_interleave_size": 8})}
        for which, digests in zip(("connector", "tier"), zip(*names)):
            with self.subTest(which):
                self.assertEqual(len(set(digests)), 4)

    def test_a_tier_that_is_not_told_must_be(self) -> None:
        config = config_of(self.folder)
        made = offloading.build_offloading_config(config, cache_of(group(full(), "a")))
        split = OffloadingParallelConfig(0, 2, 2, 1, 1, 2, 0, 1, None, False)
        spec = SimpleNamespace(config=SimpleNamespace(**{**vars(made), "parallel": split}))
        given = {"masters": "a:1", "model": "m", "revision": "1"}
        with self.assertRaisesRegex(ValueError, '"cp_kv_cache_interleave_size"'):
            tier.run_fields(spec, Options.parse(given))
        digests = set()
        for size in (1, 8):
            options = Options.parse({**given, "cp_kv_cache_interleave_size": size})
            run = tier.run_fields(spec, options)
            digests.add(tier.layout_of(spec, options, 4096, run).digest)
        self.assertEqual(len(digests), 2)


class WeightsTest(LayoutCase):
    def weights(self, content: str) -> None:
        Path(self.folder, "model.safetensors").write_text(content)

    def test_other_weights_in_the_same_folder_are_another_namespace(self) -> None:
        self.weights("old")
        old = self.digests()
        self.assertEqual(self.digests(), old, "a restart")
        named = self.digests(revision="v1")
        self.weights("newer")
        new = self.digests()
        self.assertTrue(set(new).isdisjoint(old), (old, new))
        self.assertEqual(self.digests(revision="v1"), named, "what the user says counts")

    def test_the_same_model_in_other_folders_meets_where_it_is_named(self) -> None:
        self.weights("here")
        same = self.digests(model="m", revision="v1")
        self.folder = self.enterContext(model_folder())
        self.weights("elsewhere")
        self.assertEqual(self.digests(model="m", revision="v1"), same)

    def test_weights_that_nobody_tells_must_be_named(self) -> None:
        for far in (setting("model_config", "model", "org/model"),
                    setting("model_config", "model_weights", "s3://bucket/model")):
            with self.assertRaisesRegex(ValueError, 'set "revision"'):
                self.layouts(far)
            self.layouts(far, revision="v1")
        store = setting("model_config", "model_weights", "s3://bucket/model")
        self.assertEqual({made.fields["model"] for made in self.layouts(store, revision="v1")},
                         {"s3://bucket/model"}, "not where its configuration was fetched to")

    def test_a_draft_counts_with_its_weights(self) -> None:
        drafts = [model_folder() for _ in range(2)]
        folders = [self.enterContext(draft) for draft in drafts]
        names = set()
        for folder in folders:
            Path(folder, "model.safetensors").write_text(folder)
            draft = SimpleNamespace(method="draft_model",
                                    draft_model_config=config_of(folder).model_config)
            names.add(engine.draft_name(SimpleNamespace(speculative_config=draft)))
        self.assertEqual(len(names), 2)


class FingerprintTest(LayoutCase):
    def test_publishers_of_events_find_the_tokens_of_a_block(self) -> None:
        for made in self.layouts():
            text = connector.moonpool.fingerprint(**made.fingerprint_fields())
            self.assertTrue(text.startswith(f"page_tokens={BLOCK_TOKENS};"), text)

    def test_groups_of_other_sizes_have_no_common_one(self) -> None:
        groups = [SimpleNamespace(tokens_per_block=tokens) for tokens in (16, 32)]
        for chosen, tokens in ((groups, None), (groups[:1], 64)):
            config = SimpleNamespace(groups=chosen, cache=SimpleNamespace(blocks_per_chunk=4))
            self.assertEqual(tier._page_tokens(config), tokens)


if __name__ == "__main__":
    unittest.main()
