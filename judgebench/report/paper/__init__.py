"""The tables of the contrastive-decoding paper, the published figures beside ours.

`python -m judgebench.report.paper RUN [RUN ...]` prints them for finished runs, several families together.
"""

from judgebench.report.paper.build import build
from judgebench.report.paper.files import cd_tables, check_tables, table_files, table_text
from judgebench.report.paper.found import RunResults

__all__ = ["RunResults", "build", "cd_tables", "check_tables", "table_files", "table_text"]
