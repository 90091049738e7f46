"""Where conf/ and sweeps/ lie: beside the package in a checkout, inside it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

_PACKAGE = Path(__file__).resolve().parent
HOME = _PACKAGE if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent
FOLDER = HOME / "conf"


class SweepsSearchPath(SearchPathPlugin):
    """Lets `+sweeps=NAME` find the studies in sweeps/, which lies beside conf/."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Appends the folder that holds sweeps/."""
        search_path.append("judgebench", f"file://{HOME}")


def register() -> None:
    """Makes the search path known to Hydra."""
    Plugins.instance().register(SweepsSearchPath)
