"""Model folders that name other files than they hold, or files that never end."""

import hashlib
import json
import os

import pytest
from safetensors.numpy import load_file, save_file

from judgebench.judges.local.loading import ModelSource
from judgebench.words.errors import UserError


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def folder(model_folder):
    """A tiny model whose second half of weights can be put anywhere."""
    return model_folder


def split(folder, place, changed=0.0):
    """Moves half of a model's weights into another file."""
    whole = folder / "model.safetensors"
    weights = load_file(whole)
    names = sorted(weights)
    parts = {"a.safetensors": names[::2], place: names[1::2]}
    for name, held in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        save_file({one: weights[one] + changed for one in held}, folder / name, {"format": "pt"})
    index = {"metadata": {}, "weight_map": {one: name for name, held in parts.items() for one in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    whole.unlink()


def test_weights_in_a_subfolder_count(folder, tmp_path):
    split(folder, "parts/b.safetensors")
    before = ModelSource(str(folder)).fingerprint(digest)
    held = ModelSource(str(folder)).model().state_dict()
    part = folder / "parts" / "b.safetensors"
    save_file({name: values + 1 for name, values in load_file(part).items()}, part, {"format": "pt"})
    after = ModelSource(str(folder), role="tutor").model().state_dict()
    assert any((held[name] != after[name]).any() for name in held)  # they are loaded
    assert ModelSource(str(folder)).fingerprint(digest) != before


def test_weights_of_an_ordinary_folder_count_as_they_did(folder):
    def as_before(folder):
        names = {path.name for kind in ("*.safetensors", "*.json", "*.jinja") for path in folder.glob(kind)}
        names |= {path.name for kind in ("*.model", "*.txt") for path in folder.glob(kind)}
        lines = "".join(f"{name} {digest(folder / name)}\n" for name in sorted(names))
        return hashlib.sha256(lines.encode()).hexdigest()

    assert ModelSource(str(folder)).fingerprint(digest) == as_before(folder)
    split(folder, "b.safetensors")
    ModelSource.config.cache_clear()
    assert ModelSource(str(folder)).fingerprint(digest) == as_before(folder)


@pytest.mark.parametrize("place", ["../b.safetensors", "{tmp}/b.safetensors", "parts/../../b.safetensors"])
def test_weights_outside_of_the_folder_are_refused(folder, tmp_path, place):
    (folder / "parts").mkdir()
    split(folder, place.format(tmp=tmp_path))
    with pytest.raises(UserError, match=r"^judge.path=.*its weights are said to lie in '.*b.safetensors', outside of"):
        ModelSource(str(folder)).fingerprint(digest)


def test_weights_that_are_linked_from_elsewhere_are_refused_unless_it_is_the_hubs_cache(tmp_path, folder):
    (tmp_path / "elsewhere").mkdir()
    weights = folder / "model.safetensors"
    weights.rename(tmp_path / "elsewhere" / "w.safetensors")
    weights.symlink_to(tmp_path / "elsewhere" / "w.safetensors")
    with pytest.raises(UserError, match=r"model.safetensors is a link to .*w.safetensors, outside of the model's"):
        ModelSource(str(folder)).fingerprint(digest)
    cache = tmp_path / "models--a--b"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots").mkdir()
    folder.rename(cache / "snapshots" / "0123")
    (tmp_path / "elsewhere" / "w.safetensors").rename(cache / "blobs" / "abcd")
    weights = cache / "snapshots" / "0123" / "model.safetensors"
    weights.unlink()
    weights.symlink_to("../../blobs/abcd")
    assert ModelSource(str(weights.parent)).fingerprint(digest)


@pytest.mark.parametrize("index", ["[]", "{}", '{"weight_map": 1}', '{"weight_map": {"a": 1}}', "[" * 100_000, ""])
def test_a_damaged_index_is_a_sentence(folder, index):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(UserError, match=r"^judge.path=.*model.safetensors.index.json.*fetch it again"):
        ModelSource(str(folder)).fingerprint(digest)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "more.txt"])
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_what_never_ends_is_refused_before_it_is_read(folder, name, kind):
    (folder / name).unlink(missing_ok=True)
    if kind == "device":
        (folder / name).symlink_to("/dev/zero")
    else:
        os.mkfifo(folder / name)
    with pytest.raises(UserError, match=rf"{name} is no ordinary file but a device or a pipe"):
        ModelSource(str(folder)).tokenizer()
    with pytest.raises(UserError, match="no ordinary file"):
        ModelSource(str(folder)).fingerprint(digest)
