"""Settings of any data; neither torch nor a file is needed to check them."""

from __future__ import annotations

from dataclasses import dataclass

from judgebench.config.fields import Annotated, Ge, Lt, check_fields


@dataclass(frozen=True)
class DataSettings:
    """Settings of any data set; see `judgebench.data.module.JudgeDataModule` for what each means.

    Raises:
        UserError: names each that is of another kind, or out of its bounds.
    """

    path: str | None = None
    limit_groups: Annotated[int, Ge(1)] | None = None
    dev_share: Annotated[float, Ge(0), Lt(1)] = 0.1
    seed: Annotated[int, Ge(0)] = 0

    def __post_init__(self) -> None:
        check_fields(self, "data")
