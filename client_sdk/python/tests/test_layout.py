"""What tells layouts apart, without a pool."""

import os
import shutil

import moonpool
import pytest
from moonpool._layout import weights_of


def test_a_fingerprint_is_canonical():
    assert moonpool.fingerprint(b=1, a="x", c=None) == "a=x;b=1"
    assert moonpool.fingerprint(a="1;b=2") != moonpool.fingerprint(a="1", b=2)
    assert moonpool.fingerprint(a="\u00fc\n") == r"a=\xfc\n"


def test_a_long_fingerprint_keeps_a_head_and_a_hash():
    long, other = moonpool.fingerprint(a="m" * 500), moonpool.fingerprint(a="m" * 501)
    assert long.startswith("a=mmm") and len(long) <= 160 and long != other


def test_the_tokens_of_a_page_outlive_every_cut():
    assert moonpool.fingerprint(dtype="x", page_tokens=16) == "page_tokens=16;dtype=x"
    long = moonpool.fingerprint(model="m" * 500, page_tokens=16, dtype="b" * 200)
    assert long.startswith("page_tokens=16;dtype=b") and len(long) <= 160


@pytest.fixture
def model(tmp_path):
    """A model's folder as `git clone` leaves it."""
    folder = tmp_path / "model"
    for name in ("model-1.safetensors", "deep/model-2.safetensors", "modeling.py", "config.json",
                 ".git/lfs/old.safetensors"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("weights")
    return folder


def test_a_folder_that_stays_as_it_is_holds_the_same_weights(model, tmp_path):
    before = weights_of(str(model))
    assert len(before) == 16 and weights_of(f"{model}/") == before
    (model / "config.json").write_text("compared by what it says")
    (model / ".git/lfs/old.safetensors").write_text("not loaded")
    assert weights_of(str(model)) == before
    shutil.copytree(model, tmp_path / "copy")  # keeps the times
    (tmp_path / "link").symlink_to(model)
    assert {weights_of(str(tmp_path / name)) for name in ("copy", "link")} == {before}


@pytest.mark.parametrize("name", ["model-1.safetensors", "deep/model-2.safetensors", "modeling.py"])
def test_files_written_anew_are_other_weights(model, name):
    seen = {weights_of(str(model))}
    file = model / name
    times = file.stat()
    file.write_text("WEIGHTS")  # as long as before
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    seen.add(weights_of(str(model)))
    file.write_text("more weights")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    seen.add(weights_of(str(model)))
    file.rename(file.with_name("other" + file.suffix))
    seen.add(weights_of(str(model)))
    file.with_name("other" + file.suffix).unlink()
    seen.add(weights_of(str(model)))
    assert len(seen) == 5


def test_a_hubs_cache_knows_weights_by_their_content(tmp_path):
    seen = []
    for time, blob in enumerate(("aa11", "aa11", "bb22")):
        cache = tmp_path / str(time)
        for folder in ("blobs", "snapshots/main"):
            (cache / folder).mkdir(parents=True)
        (cache / "blobs" / blob).write_text("weights")
        os.utime(cache / "blobs" / blob, ns=(time, time))
        (cache / "snapshots/main/model.safetensors").symlink_to(f"../../blobs/{blob}")
        seen.append(weights_of(str(cache / "snapshots/main")))
    assert seen[0] == seen[1] != seen[2]


def test_a_file_holds_weights_and_a_name_none(model):
    file = model / "model-1.safetensors"
    before = weights_of(str(file))
    file.write_text("more weights")
    assert "" != before != weights_of(str(file)) != ""
    assert weights_of("org/no-such-folder") == weights_of("") == ""
