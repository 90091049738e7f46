"""Simulations of the audit (`judgebench.studies.audit`): what it finds, what it invents, what its intervals hold.

    effects     planted effects of 0, .05, .1 and .2 of the scale on 20, 60 and 200 articles: the share that is found
                after Holm's correction, the share of data sets with any false alarm in the family, and coverage
    simpler     false alarms of the regressions that know nothing of the error of people: of judge less human, and of
                the judge given the human score
    family      two judges that both look as if they loved their own systems: one does, the other uses the scale
                differently

`python scripts/simulate_audit.py effects --data-sets 1000`. Texts of six systems an article, of three families; quality
differs by article, system, length and format, so that whatever good texts have looks as if it moved a noisy judge.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from judgebench.stats.clusters import Clusters, ends_of
from judgebench.stats.permutation import holm
from judgebench.stats.regression import Effect, paired_effect, rating_error, regression_effects

SYSTEMS = 6
PROBES = 6
NAMES = ("length", "format", "language b", "language c", "family b", "family c", "place")
PLANTED = NAMES.index("format")
ARTICLES = (20, 60, 200)
EFFECTS = (0.0, 0.05, 0.1, 0.2)


class Data(NamedTuple):
    """Texts [N]: their articles, the judge's scores, ratings [N, R], what varies [N, K], probes' differences [P, N]."""

    articles: np.ndarray
    judge: np.ndarray
    ratings: np.ndarray
    x: np.ndarray
    probes: np.ndarray


def draw(seed: Sequence[int], articles: int, effect: float, raters: int, noise: float = 1.0) -> Data:
    """One data set: Markdown moves the judge by the effect, as does the first probe; nothing else moves it. The judge's
    noise is in that of one rating."""
    rng = np.random.default_rng(list(seed))
    count = articles * SYSTEMS
    article = np.repeat(np.arange(articles), SYSTEMS)
    system = np.tile(np.arange(SYSTEMS), articles)
    language = (rng.permutation(articles) % 3)[article]
    marked = rng.random(count) < 0.5
    # 1. quality, which articles, systems and formats differ in
    quality = 0.5 + rng.normal(0, 0.08, articles)[article] + rng.normal(0, 0.12, count)
    quality += np.array([-0.08, -0.05, 0, 0.02, 0.05, 0.1])[system] + 0.06 * marked
    length = rng.normal(0, 0.5, count) + 2 * quality
    # 2. what people and the judge make of it
    ratings = quality[:, None] + rng.normal(0, 0.15, (count, raters))
    judge = quality + effect * marked + rng.normal(0, 0.06, articles)[article] + rng.normal(0, 0.15 * noise, count)
    family = system // 2
    places = np.arange(count) / count
    x = np.column_stack([length, marked, language == 1, language == 2, family == 1, family == 2, places])
    # 3. probes: noise of the text and of its article
    moved = np.where(np.arange(PROBES) == 0, effect, 0.0)[:, None]
    probes = moved + rng.normal(0, 0.1, (PROBES, count)) + rng.normal(0, 0.05, (PROBES, articles))[:, article]
    return Data(article, judge, ratings, x.astype(float), probes)


def data_effects(data: Data) -> list[Effect]:
    """The effect of each of what varies."""
    human = np.nanmean(data.ratings, axis=1)
    error = rating_error(data.ratings)
    effects, _ = regression_effects(data.judge, human, data.x, error, Clusters.of(data.articles, 0))
    return effects


def family_of_effects(data: Data) -> list[Effect]:
    """All effects of a data set, those of the data first."""
    clusters = Clusters.of(data.articles, 0)
    probes = [paired_effect(differences, clusters) for differences in data.probes]
    return [*data_effects(data), *probes]


def holds_value(effect: Effect, truth: float) -> bool:
    low, high = ends_of(effect.estimate)
    return low <= truth <= high


def effects(data_sets: int, raters: int) -> None:
    """Prints a line a size and effect."""
    count = len(NAMES) + PROBES
    print(f"{data_sets} data sets; ratings of a text: {raters}; effects of a family: {count}")
    print("articles  effect   found: data  probe   any false alarm   coverage: data  probe  none (all others)")
    planted = (PLANTED, len(NAMES))
    for articles in ARTICLES:
        for effect in EFFECTS:
            found, held = np.zeros(2), np.zeros(2)
            alarms = null_held = nulls = 0
            for number in range(data_sets):
                every = family_of_effects(draw((number, articles, round(effect * 100)), articles, effect, raters))
                told = holm(np.array([one.p for one in every])) <= 0.05
                holds = [holds_value(one, effect) for one in every]
                none = [holds_value(one, 0.0) for one in every]
                for place, column in enumerate(planted):
                    found[place] += told[column]
                    held[place] += holds[column]
                others = [column for column in range(len(every)) if column not in planted]
                null_held += sum(none[column] for column in others)
                nulls += len(others)
                alarms += bool(told[others].any() or (effect == 0 and told.any()))
            shares = [*found / data_sets, alarms / data_sets, *held / data_sets, null_held / nulls]
            line = "{:8d}  {:6.2f}        {:6.3f} {:6.3f}            {:6.3f}           {:6.3f} {:6.3f}  {:6.3f}"
            print(line.format(articles, effect, *shares), flush=True)


# --- simpler regressions --------------------------------------------------------------------------


def simpler(data_sets: int, raters: int) -> None:
    """Prints how often each regression finds an effect where there is none, of judges whose scores spread as people's
    do, or half as far, and whose noise is that of one rating, or a third."""
    print("articles  spread  noise    any false alarm: audit   judge less human   judge given human")
    for articles in (60, 200):
        for spread, noise in ((1.0, 1.0), (0.5, 1.0), (1.0, 1 / 3), (0.5, 1 / 3)):
            alarms = np.zeros(3)
            for number in range(data_sets):
                data = draw((number, articles, 8), articles, 0.0, raters, noise)
                judge, human = spread * data.judge, data.ratings.mean(axis=1)
                clusters = Clusters.of(data.articles, 0)
                none = np.zeros(len(human))
                unknown = rating_error(none[:, None])
                audited = data_effects(data._replace(judge=judge))
                less, _ = regression_effects(judge - human, none, data.x, unknown, clusters)
                given, _ = regression_effects(judge, none, np.column_stack([data.x, human]), unknown, clusters)
                for place, every in enumerate((audited, less, given[:-1])):
                    alarms[place] += (holm(np.array([one.p for one in every])) <= 0.05).any()
            line = "{:8d}  {:6.2f} {:6.2f}                     {:6.3f}             {:6.3f}              {:6.3f}"
            print(line.format(articles, spread, noise, *alarms / data_sets), flush=True)


# --- families -------------------------------------------------------------------------------------


def judges(seed: int, articles: int, love: float, raters: int = 3) -> tuple[Data, np.ndarray, np.ndarray]:
    """Texts of six systems, the two best of the judge's own family; the scores of a judge that spreads from 41 to 88
    of 100 and gives its own `love` of the scale more, and which texts are its own."""
    rng = np.random.default_rng([seed, 5])
    count = articles * SYSTEMS
    article = np.repeat(np.arange(articles), SYSTEMS)
    system = np.tile(np.arange(SYSTEMS), articles)
    quality = 0.5 + rng.normal(0, 0.06, articles)[article] + rng.normal(0, 0.1, count)
    quality += np.array([-0.12, -0.08, -0.02, 0.02, 0.08, 0.12])[system]
    own = system >= SYSTEMS - 2
    ratings = quality[:, None] + rng.normal(0, 0.12, (count, raters))
    # people use .44 to .79 of the scale, as Command A; the judge .41 to .88, as GPT-4.1, both of WMT25
    people = 0.44 + 0.35 * ratings
    judge = 0.41 + 0.47 * (quality + rng.normal(0, 0.12, count)) + love * own
    return Data(article, judge, people, own[:, None].astype(float), np.zeros((0, count))), people.mean(axis=1), own


def family(data_sets: int, raters: int) -> None:
    """Prints the difference of means, and what the audit says."""
    print("articles  love    mean of own less others, judge - people    audit: effect   told   coverage")
    for articles in (60, 200):
        for love in (0.0, 0.05):
            plain, sizes, told, held = [], [], 0, 0
            for number in range(data_sets):
                data, people, own = judges(number, articles, love, raters)
                less = data.judge - people
                plain.append(less[own].mean() - less[~own].mean())
                [effect] = data_effects(data)
                sizes.append(effect.estimate.value)
                told += effect.p is not None and effect.p <= 0.05
                held += holds_value(effect, love)
            line = "{:8d}  {:.2f}    {:+.3f}                                     {:+.3f}          {:.3f}  {:.3f}"
            print(
                line.format(articles, love, np.mean(plain), np.mean(sizes), told / data_sets, held / data_sets),
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["effects", "simpler", "family"])
    parser.add_argument("--data-sets", type=int, default=500)
    parser.add_argument(
        "--raters", type=int, default=3, help="ratings of each text; 1: how noisy people are is not known"
    )
    given = parser.parse_args()
    {"effects": effects, "simpler": simpler, "family": family}[given.what](given.data_sets, given.raters)


if __name__ == "__main__":
    main()
