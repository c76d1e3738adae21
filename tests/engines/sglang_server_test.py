#!/usr/bin/env python3
"""moonpool.sglang and what SGLang was started with: engines that differ in it never share a page.

    .../sglang/bin/python tests/engines/sglang_server_test.py [-v] [CLASS[.TEST] ...]

The settings are published as a server publishes them. Ends with 77 where there is no SGLang.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
import unittest

import sglang_fixture as fixture

os.environ["HF_HUB_OFFLINE"] = "1"  # the models named here are on no network
fixture.require_engine()

import torch  # noqa: E402
from sglang.srt.runtime_context import get_context  # noqa: E402
from sglang_fixture import WithPool, pages  # noqa: E402


class Server(WithPool):
    def storage(self, host, *, attach=True, extra=None, **server):
        """The back end of a server with these settings, which names nothing itself."""
        with get_context().override_server_args(**server):
            own = {"model": "", "revision": ""} | (extra or {})
            return super().storage(host, attach=attach, extra=own)

    def folder(self):
        return pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def assert_not_shared(self, host, one, other):
        self.assertNotEqual(one.namespace, other.namespace)
        keys = fixture.hashes(2)
        self.assertEqual(one.batch_set_v1(keys, pages(host, 2)), [True] * 2)
        self.assertEqual([storage.batch_exists(keys) for storage in (one, other)], [2, 0])

    def test_the_two_formats_of_fp8_are_not_taken_for_each_other(self):
        host = fixture.mha_pool("page_first", dtype=torch.uint8)  # SGLang stores both so
        one = self.storage(host, kv_cache_dtype="fp8_e4m3")
        other = self.storage(host, kv_cache_dtype="fp8_e5m2")
        self.assert_not_shared(host, one, other)
        self.assertEqual(self.storage(host, kv_cache_dtype="fp8_e4m3").namespace, one.namespace)

    def test_bytes_whose_format_is_not_known_are_refused(self):
        host = fixture.mha_pool("page_first", dtype=torch.uint8)
        storage = self.storage(host, kv_cache_dtype="auto", attach=False)
        with self.assertRaisesRegex(ValueError, "uint8.*--kv-cache-dtype"):
            storage.register_mem_pool_host(host)
        self.storage(host, kv_cache_dtype="auto", extra={"kv_cache_dtype": "fp8_e4m3"})

    def test_other_scales_make_other_pages(self):
        host = fixture.mha_pool("page_first", dtype=torch.uint8)
        file = self.folder() / "scales.json"

        def with_scales(text):
            file.write_text(text)
            return self.storage(
                host, kv_cache_dtype="fp8_e4m3", quantization_param_path=str(file)
            )

        self.assert_not_shared(host, with_scales("1.0"), with_scales("2.0"))

    def test_other_weights_in_the_same_folder_make_other_pages(self):
        host = fixture.mha_pool("page_first")
        folder = self.folder()

        def with_weights(text):
            (folder / "model.safetensors").write_text(text)
            return self.storage(host, model_path=str(folder))

        self.assert_not_shared(host, with_weights("first"), with_weights("second"))

    def test_what_a_server_is_started_with_is_in_the_namespace(self):
        host = fixture.mha_pool("page_first")
        servers = [
            {},
            {"model_path": "another"},
            {"revision": "r2"},
            {"quantization": "fp8"},
            {"json_model_override_args": '{"rope_theta": 1}'},
        ]
        namespaces = {self.storage(host, **server).namespace for server in servers}
        self.assertEqual(len(namespaces), len(servers))

    def test_the_fingerprint_begins_with_the_tokens_of_a_page(self):
        storage = self.storage(fixture.mha_pool("page_first"), model_path="m" * 300)
        self.assertRegex(storage.fingerprint, rf"^page_tokens={fixture.PAGE_TOKENS};")

    def test_without_a_server_the_weights_must_be_named(self):
        host = fixture.mha_pool("page_first")
        for extra in ({"model": ""}, {"revision": ""}):
            with self.assertRaisesRegex(ValueError, "set `model` and `revision`"):
                super().storage(host, extra=extra)


if __name__ == "__main__":
    unittest.main()
