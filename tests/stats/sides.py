"""A judge and humans as studies take them, made by hand."""

import numpy as np

from judgebench.decoding.rules import Expectation
from judgebench.studies.scores import JudgeScores, ScoreSeries


def cell(judge="main", decoding="expectation", lambda_=None, temperature=None, ends=(1.0, 5.0), dimension="coherence"):
    return ScoreSeries("test", dimension, *ends, 1.0, "none", "none", judge, decoding, lambda_, temperature)


def side(logprobs=None, scores=None, groups=12, **more) -> JudgeScores:
    """60 texts of twelve articles and five systems, three raters from 1 to 5, and a judge that knows them a little."""
    rng = np.random.default_rng(0)
    quality = np.clip(np.round(rng.normal(3, 1, (60, 1)) + rng.normal(0, 0.6, (60, 3))), 1, 5)
    if logprobs is None:
        made = -0.8 * np.abs(np.arange(1, 6) - quality[:, :1] - rng.normal(0, 1, (60, 1)))
        logprobs = {"main": made - np.log(np.exp(made).sum(axis=1, keepdims=True)) - 0.1}
    if scores is None:
        scores = Expectation().scores(logprobs["main"], None, np.arange(1.0, 6.0))
    given = {
        "dataset": "made",
        "cell": cell(),
        "names": np.array([f"t{i}" for i in range(60)]),
        "groups": np.array([f"g{i % groups}" for i in range(60)]),
        "systems": np.array([f"M{i // 12}" for i in range(60)]),
        "ratings": quality,
        "raters": ("ann", "bob", "cid"),
        "scale": (1.0, 5.0),
        "over_vocabulary": ("main", "assistant"),
        "texts": ["word " * (1 + i % 7) for i in range(60)],
        "resamples": 40,
    }
    return JudgeScores(**(given | {"logprobs": logprobs, "scores": scores} | more))


def sample_of(parts, low=1.0, high=5.0, ratings=None, names=None, groups=None, systems=None, **more) -> JudgeScores:
    """One judge in one range; `parts` [N] of the way from its lowest to its highest score."""
    parts = np.asarray(parts, dtype=float)
    names = np.array([f"e{i:04d}" for i in range(len(parts))]) if names is None else np.asarray(names)
    of_cell = {"dimension": "quality", "judge": "main", "decoding": "greedy", "lambda_": None, "range_labels": ""}
    of_cell |= {name: more.pop(name) for name in of_cell if name in more}
    condition = ScoreSeries("test", "", low, high, 1.0, "none", "none", "", "", None, None)._replace(**of_cell)
    ratings = np.full((len(parts), 1), np.nan) if ratings is None else np.asarray(ratings, dtype=float)
    raters = [f"r{i}" for i in range(ratings.shape[1])] if ratings.shape[1] > 1 else []
    groups = names if groups is None else np.asarray(groups)
    systems = np.full(len(parts), "s") if systems is None else np.asarray(systems)
    more = {"scale": (1.0, 5.0), "raters": raters, "resamples": 100} | more
    return JudgeScores("d", condition, names, groups, systems, low + (high - low) * parts, ratings, **more)


def partly(articles=6, **more) -> JudgeScores:
    """The judge of `side` and raters of the first so many of its twelve articles."""
    whole = side()
    keep = np.array([int(group[1:]) < articles for group in whole.groups.tolist()])
    return side(ratings=np.where(keep[:, None], whole.ratings, np.nan), **more)


FOUR = ((0.0, 4.0), (1.0, 5.0), (2.0, 6.0), (3.0, 7.0))


def known_judge(seed, texts=80, sizes=(0.02, 0.01, 0.005), groups=20):
    """Scores [texts, 4] of a judge with variances of text, range and text x range; and groups [texts]."""
    rng = np.random.default_rng(seed)
    moved = np.array([-1.0, -1 / 3, 1 / 3, 1.0])
    moved = moved * np.sqrt(sizes[1] / moved.var(ddof=1))
    values = rng.normal(0.5, np.sqrt(sizes[0]), (texts, 1)) + moved
    return values + rng.normal(0, np.sqrt(sizes[2]), (texts, 4)), np.arange(texts) % groups


def attacked_table(sample, scores):
    """Columns of the scores of a sample's texts under each (attack, defense); NaN is an answer that cannot be read."""
    parts = []
    for (attack, defense), given in scores.items():
        named = sample.cell._replace(attack=attack, defense=defense).named
        part = {name: np.full(len(given), value) for name, value in named.items()}
        part |= {"example_id": sample.names, "group_id": sample.groups, "system_id": sample.systems}
        part |= {"score": np.nan_to_num(given, nan=sample.cell.range_min), "human": sample.human}
        parts.append(part | {"status": np.where(np.isnan(given), "failed", "parsed")})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
