"""The command line: `judgebench from FILE [out=FOLDER]`, results of another tool as data of
judgebench, and the command that measures their judge.

It reads logs of Inspect (.eval, .json; several, or a folder of them), results of promptfoo (.json,
.jsonl), test runs of DeepEval (.json), samples of lm-eval (.jsonl), tables and traces of MLflow
(.json, .jsonl, .csv), exported traces of Langfuse (.json, .jsonl, .csv), output items of OpenAI
Evals (.json), batches of OpenAI's form (.jsonl, requests, answers, or a file of each), and any
.csv, .tsv, .jsonl, .json, .parquet or .xlsx with a row for each text. It says in some lines how it
took the file, and each line ends with what changes it:

  source=COLUMN   what a text answers to
  output=COLUMN   the judged text
  human=COLUMN    people's labels; [A,B] are columns of several people, none is none
  judge=COLUMN    the judge's score, word or answer
  system=COLUMN   what wrote the text; so too group=, id= (names of articles and texts), and
                  rater=, where each row is what one person gave
  context=COLUMN  a policy or a reference that goes with a text; reason=, why the judge said so
  sheet=NAME      of a workbook of Excel; else the first that holds something
  dimension=NAME  what people's labels are about
  ranges=[[1,5]]  the range of the judge's scores
"""

from __future__ import annotations

import sys

from judgebench.command.words import Words
from judgebench.importing.columns import ROLES
from judgebench.importing.writing import RepeatedName, write_results
from judgebench.runtime.files import user_path
from judgebench.words.terminal import print_safely

_WORDS = Words(
    "from",
    __doc__,
    "judgebench from results.csv out=FOLDER",
    (*ROLES, "sheet", "dimension", "dimensions", "ranges", "out"),
)


@_WORDS
def main(words: list[str], given: dict[str, str]) -> int:
    """Writes the files and prints the command; 0, or 2 after a user's mistake."""
    files = [user_path(word) for word in words]
    if not files:
        _WORDS.refuse("the file with the results is not named")
    folder = user_path(given.pop("out", f"outputs/from/{files[0].stem}"))
    try:
        lines = write_results(files, folder, given)
    except RepeatedName:
        if "id" in given:
            raise
        # a column that looked like names, and is none far down in a long file
        lines = write_results(files, folder, {**given, "id": "none"})
    print_safely(*lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
