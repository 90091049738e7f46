"""The Inspect scorer in a real Inspect evaluation."""

import sys

import pytest

inspect_ai = pytest.importorskip("inspect_ai", reason="pip install 'judgebench[inspect]'")


@pytest.fixture(scope="module")
def card(tmp_path_factory, tiny_pair):
    from hydra.core.global_hydra import GlobalHydra

    from judgebench.calibrate import main

    folder = tmp_path_factory.mktemp("card")
    GlobalHydra.instance().clear()
    small = ("data.limit_groups=2", "data.dev_share=0.5", "ranges=[[1,5]]", "assistant=none", "tune=none")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(
            sys,
            "argv",
            [
                "calibrate",
                "judge=local",
                f"judge.path={tiny_pair[0]}",
                *small,
                "decoding=[expectation]",
                "metrics.resamples=0",
                "logger=none",
                "report=false",
                "run_dir=run",
            ],
        )
        main()
    return folder / "run" / "judge_card.yaml"


def test_an_evaluation_is_scored_by_the_card(card, tmp_path, monkeypatch):
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    from judgebench.adapters.inspect_ai import judge_card
    from judgebench.cards import Judge

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
    articles = ["The river rose after days of rain.", "The council met on Monday.", "Nobody came."]
    answers = ["It rained, and the river rose.", "Bananas.", " "]

    @solver
    def answer():
        """Answers that were written before: Inspect counts a model's tokens with a file that it would download."""

        async def solve(state, generate):
            state.output = ModelOutput.from_content("none", answers[articles.index(state.metadata["article"])])
            return state

        return solve

    task = Task(
        dataset=[Sample(input="Summarize.", target="", metadata={"article": one}) for one in articles],
        solver=answer(),
        scorer=judge_card(str(card), source="article", store=str(tmp_path / "store.sqlite")),
    )
    (log,) = eval(task, model="mockllm/model", display="none", max_samples=1)
    assert log.status == "success", log.error
    judge = Judge.from_card(card, store=tmp_path / "store.sqlite")
    known = [judge.score(*pair).score for pair in list(zip(articles, answers, strict=True))[:2]]
    given = [sample.scores["judge_card"] for sample in log.samples]
    assert [score.value for score in given[:2]] == pytest.approx(known, abs=1e-3)
    assert given[2].explanation == "There is no answer to judge.", "which ends no evaluation of the others"
    assert log.results.scores[0].metrics["mean"].value == pytest.approx(sum(known) / 2, abs=1e-3)
