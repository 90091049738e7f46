"""What small runs of the tests would do again and again is done once a process, and kept.

Most of a small run's time is Hydra's. A configuration is the files of its defaults list, one merged into the other, and
then single values. The files depend on the choices of groups alone: what is merged of judgebench's own `conf/` is kept,
and each composition has a copy. Of the environment that a run writes, versions of packages and the commit are kept.
"""

import pickle
import re
from copy import copy
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository
from hydra._internal.hydra import Hydra

from judgebench.config.keys import FOLDER

KEPT = {"file://" + str(Path(FOLDER).resolve()), "pkg://hydra.conf", "structured://"}
"""Sources whose files stay as they are while tests run."""


def sources_of(repo) -> tuple[str, ...] | None:
    """The sources of a repository of configurations; None where one of them may change while tests run."""
    sources = tuple(f"{one.scheme()}://{one.path.partition('://')[2] or one.path}" for one in repo.get_sources())
    return sources if KEPT.issuperset(sources) else None


def keep(patch: pytest.MonkeyPatch) -> None:
    """Keeps what Hydra reads and merges, and what does not change while tests run; YAML is parsed in C."""
    from httpx._transports import default

    from judgebench.results import folder

    composed, load = Hydra.get_mode, ConfigRepository.load_config
    defaults_of, merge = config_loader_impl.create_defaults_list, ConfigLoaderImpl._compose_config_from_defaults_list
    files, lists, merged = {}, {}, {}

    def get_mode(self, config_name, overrides):  # which only one file of conf/ sets
        return composed(self, config_name, overrides) if re.search(r"hydra.mode|exp=\[?tasks", str(overrides)) else None

    def load_config(self, config_path):
        key = (sources_of(self), config_path)
        if key not in files:
            found = load(self, config_path)
            if found is None or key[0] is None:
                return found
            files[key] = pickle.dumps(found)
        return pickle.loads(files[key])

    def begin(self, delegate):  # whose sources are put in place of others, and never changed
        self.delegate, self.cache = copy(delegate), {}

    def create_defaults_list(repo, config_name, overrides_list, prepend_hydra, skip_missing):
        def listed(overrides):
            return defaults_of(repo, config_name, overrides, prepend_hydra=prepend_hydra, skip_missing=skip_missing)

        def is_value(override):
            if override.is_sweep_override():
                return False
            return isinstance(override.value(), dict) or not repo.group_exists(override.key_or_group)

        values = [override for override in overrides_list if is_value(override)]
        choices = [override for override in overrides_list if override not in values]
        if (sources := sources_of(repo)) is None:
            return listed(overrides_list)
        key = (sources, config_name, prepend_hydra, skip_missing, *(override.input_line for override in choices))
        if key not in lists:
            lists[key] = listed(choices)
        return replace(lists[key], config_overrides=values)

    def compose_config(self, defaults, repo):
        if (sources := sources_of(repo)) is None:
            return merge(self, defaults, repo)
        key = (sources, *map(repr, defaults))
        if key not in merged:
            merged[key] = pickle.dumps(merge(self, defaults, repo))
        return pickle.loads(merged[key])

    patch.setattr(Hydra, "get_mode", get_mode)
    patch.setattr(ConfigRepository, "load_config", load_config)
    patch.setattr(CachingConfigRepository, "__init__", begin)
    patch.setattr(config_loader_impl, "create_defaults_list", create_defaults_list)
    patch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", compose_config)
    patch.setattr(yaml, "SafeLoader", yaml.CSafeLoader)
    patch.setattr(folder, "code_version", cache(folder.code_version))
    patch.setattr(metadata, "version", cache(metadata.version))
    # certificates of all authorities there are, which no server of the tests has
    patch.setattr(default, "create_ssl_context", cache(default.create_ssl_context))
