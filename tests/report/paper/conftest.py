"""The paper's own figures, as if judgebench's runs had found them."""

import csv
import io
import re

import pytest

from judgebench.report.paper.cd import printed_correlations, printed_settings
from judgebench.report.paper.tables import judge_key
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.stats.correlation import CORRELATIONS
from judgebench.types import ScoreRange


def run_of(records, main="J", assistant=None, groups="articles", tutor=None, **more) -> Results:
    """A run that found these records of metrics.json, by the names of its models."""
    titles = {"main": main, "assistant": assistant, "groups": groups}
    config = {"tutor": {"path": tutor}} if tutor else {}
    return Results(config=config, about={"titles": titles}, metrics=list(records), **more)


def record(judge, decoding, score_range=None, value=0.5, **more):
    """A record of metrics.json; `value` is one figure for all correlations, or a mapping."""
    values = value if isinstance(value, dict) else dict.fromkeys(CORRELATIONS, value)
    found = {}
    for name in CORRELATIONS:
        found |= {name: values[name], f"{name}_low": values[name] - 0.05, f"{name}_high": values[name] + 0.05}
    at = score_range or ScoreRange(1, 5)
    base = {"dataset": "summeval", "split": "test", "level": "dataset", "dimension": "coherence"}
    base |= {"range_min": at.minimum, "range_max": at.maximum, "range_step": at.step}
    base |= {"attack": "none", "defense": "none", "judge": judge, "decoding": decoding, "lambda": None}
    return base | {"temperature": None, "n": 1440, "groups": 90, "constant": False, "flags": []} | found | more


def as_run(main: str, assistant: str) -> Results:
    """The run of one pair that finds exactly what the paper prints."""
    names = tuple(name.split("/")[-1] for name in (main, assistant))
    roles = {judge_key(main): ("main", "greedy"), judge_key(assistant): ("assistant", "greedy")}
    roles[judge_key(main, assistant)] = ("pair", "contrastive")
    keys = ["dimension", "judge_key", "range_min", "range_max"]
    settings = printed_settings()[[*keys, "lambda_published", "temperature_published"]]
    rows = printed_correlations().merge(settings, how="left", on=keys)
    records = []
    for row in rows[rows["range_min"].notna() & rows["judge_key"].isin(roles)].to_dict("records"):
        known = {name: row[f"{name}_published"] for name in ("lambda", "temperature") if row["lambda_published"] > 0}
        values = {name: row[f"{name}_published"] for name in CORRELATIONS}
        at = ScoreRange(row["range_min"], row["range_max"])
        records.append(record(*roles[row["judge_key"]], at, values, dimension=row["dimension"], **known))
    return run_of(records, *names, tuning=[{"tune": "dev", "decoding": "contrastive"}])


@pytest.fixture(scope="session")
def paper_runs() -> list[Results]:
    """One run a pair of the paper."""
    pairs = printed_settings()[["main", "assistant"]].drop_duplicates()
    return [as_run(*pair) for pair in pairs.itertuples(index=False)]


HOSTILE = r"a_b&c%d$e#f{g}h\i^j~k<l>m|n" + "\n"
"""A name with all that LaTeX acts on."""


def files_of(tables) -> dict[str, str]:
    """File name -> content of some tables."""
    return {name: content for table in tables for name, content in table.files.items()}


def csv_of(table) -> list[dict[str, str]]:
    """The rows of a table's CSV."""
    return list(csv.DictReader(io.StringIO(table.files[f"{table.name}.csv"])))


def check_forms(tables) -> None:
    """CSV is rectangular; LaTeX is too, balanced, and holds nothing of `HOSTILE` as it stands."""
    for name, text in files_of(tables).items():
        if name.endswith(".csv"):
            assert len({len(row) for row in csv.reader(io.StringIO(text))}) == 1
        else:
            plain = re.sub(r"\\[\\{}&%$#_]", "", text)
            assert plain.count("{") == plain.count("}")
            assert plain.count("$") % 2 == 0
            assert "\\usepackage" in plain.splitlines()[0]
            assert "%" not in plain.split("\n", 1)[1]
            columns = len(re.search(r"begin\{tabular\}\{(\w+)\}", text)[1])
            assert {_cells(line) for line in text.splitlines() if line.endswith(r"\\")} == {columns - 1}
            assert HOSTILE.strip() not in text


def _cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)&", line)) + sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", line))


def run_folder(path, run: Results) -> str:
    """A run folder with what tables are made of."""
    folder = RunFolder(path)
    for name in ("config", "about", "metrics", "tuning"):
        folder.write(name, getattr(run, name) or {})
    return str(path)
