"""The tables of the contrastive-decoding and the CAP paper, the published figures beside ours.

`python -m judgebench.report.paper RUN [RUN ...]` prints them for finished runs, several families together.
"""

from judgebench.report.paper.build import build
from judgebench.report.paper.cap_build import build_cap
from judgebench.report.paper.files import check_tables, paper_tables, table_files, table_text
from judgebench.report.paper.found import RunResults

__all__ = ["RunResults", "build", "build_cap", "check_tables", "paper_tables", "table_files", "table_text"]
