"""Known answers for `tests/stats_known_answers.rs`, by NumPy, SciPy and the Python HdrHistogram.

    pip install scipy hdrhistogram
    python3 tests/stats_reference/generate.py > tests/stats_reference/answers.json

`--clusters` prints, in place of the answers, how often the two-cluster rule marks plain noise.
"""

import json
import math
import random
import sys

import numpy
from hdrh.histogram import HdrHistogram
from scipy import stats

METHODS = {
    "nearest-rank": "inverted_cdf",
    "linear": "linear",
}


def by_index(values, index):
    return sorted(values)[min(index, len(values) - 1)]


def samples():
    rng = random.Random(20261010)
    yield [34.0, 29.3, 79.9]
    yield [54.0, 49.0, 45.0, 41.0, 37.0, 34.0, 40.0]
    yield [1.0]
    yield [2.0, 2.0, 2.0, 2.0]
    for n in (2, 5, 10, 31):
        yield [round(math.exp(rng.gauss(3.5, 0.1)), 3) for _ in range(n)]


def one_sample(values):
    x = numpy.array(values)
    n = len(values)
    quantiles = []
    for percent in (1, 25, 50, 90, 95, 99, 100):
        row = {"percent": percent}
        for rule, method in METHODS.items():
            row[rule] = float(numpy.percentile(x, percent, method=method))
        row["floor-of-count"] = by_index(values, percent * n // 100)
        row["floor-of-last"] = by_index(values, (n - 1) * percent // 100)
        quantiles.append(row)
    walsh = [(values[i] + values[j]) / 2 for i in range(n) for j in range(i, n)]
    return {
        "values": values,
        "median": float(numpy.median(x)),
        "mean": float(numpy.mean(x)),
        "coefficient_of_variation": float(stats.variation(x, ddof=1)) if n > 1 else None,
        "geometric_mean": float(stats.gmean(x)),
        "hodges_lehmann": float(numpy.median(walsh)),
        "quantiles": quantiles,
    }


def two_samples():
    rng = random.Random(7)
    for n, m in ((3, 3), (5, 4), (8, 8), (12, 7)):
        a = [round(rng.gauss(30, 2), 3) for _ in range(n)]
        b = [round(rng.gauss(32, 2), 3) for _ in range(m)]
        shift = float(numpy.median(numpy.subtract.outer(b, a)))
        yield {"before": a, "after": b, "shift": shift}


def rankings():
    rng = random.Random(8)
    pairs = [([1, 2, 3, 4, 5], [3, 4, 1, 2, 5]), ([12, 2, 1, 12, 2], [1, 4, 7, 1, 0])]
    for n in (4, 9, 11, 25):
        pairs.append(([rng.randrange(8) for _ in range(n)], [rng.randrange(8) for _ in range(n)]))
    for a, b in pairs:
        yield {"a": a, "b": b, "tau_b": float(stats.kendalltau(a, b, variant="b").statistic)}


def bootstraps():
    """The whole distribution of resamples, by enumeration: what many random draws must come near to."""
    for values in ([30.1, 32.1, 33.9], [28.0, 41.0, 59.0, 44.0]):
        n = len(values)
        draws = numpy.array(numpy.meshgrid(*[values] * n)).reshape(n, -1)
        means = draws.mean(axis=0)
        yield {
            "values": values,
            "level": 0.9,
            "low": float(numpy.percentile(means, 5, method="inverted_cdf")),
            "high": float(numpy.percentile(means, 95, method="inverted_cdf")),
        }


def rank_sums():
    """Exact tails of the Mann-Whitney statistic, its test, and the interval of the shift by inverting it."""
    rng = random.Random(11)
    for n, m in ((3, 3), (3, 60), (5, 9), (12, 60), (24, 30)):
        before = [round(rng.gauss(0, 1), 6) for _ in range(n)]
        after = [round(rng.gauss(0.8, 1), 6) for _ in range(m)]
        p = stats.mannwhitneyu(before, after, method="exact").pvalue
        differences = sorted(b - a for a in before for b in after)
        row = {"before": before, "after": after, "p": float(p), "intervals": []}
        for level in (0.8, 0.95, 0.999):
            # The widest shift that the exact test does not reject, by trying: a shift just inside a difference.
            def rejected(shift):
                moved = [b - shift for b in after]
                return stats.mannwhitneyu(before, moved, method="exact").pvalue <= (1 - level) * (1 + 1e-9)
            kept = [i for i in range(len(differences) - 1)
                    if not rejected((differences[i] + differences[i + 1]) / 2)]
            ends_open = not rejected(differences[0] - 1)
            interval = None if ends_open else [differences[kept[0]], differences[kept[-1] + 1]]
            row["intervals"].append({"level": level, "interval": interval})
        yield row


def tails():
    for p, freedom in ((0.975, 4.0), (0.9999, 19.0), (0.99999, 33.5), (0.9, 2e6)):
        yield {"p": p, "freedom": freedom, "t": float(stats.t.ppf(p, freedom)), "z": float(stats.norm.ppf(p))}


def components():
    rng = random.Random(12)
    for sizes in ((3, 3, 3, 3), (3, 12, 5), (2, 2), (4, 4, 1, 7, 3)):
        groups = []
        for size in sizes:
            level = rng.gauss(0, 0.05)
            groups.append([round(level + rng.gauss(0, 0.07), 6) for _ in range(size)])
        k, n = len(groups), sum(sizes)
        within = sum((len(g) - 1) * numpy.var(g, ddof=1) for g in groups if len(g) > 1) / (n - k)
        f = stats.f_oneway(*groups).statistic
        n0 = (n - sum(s * s for s in sizes) / n) / (k - 1)
        yield {
            "groups": groups,
            "within": float(within),
            "between": float(max(0.0, (f - 1) * within / n0)),
        }


def energy_splits():
    """The split with the largest energy statistic of Matteson and James 2014, from its definition."""
    rng = random.Random(13)

    def mean_within(x):
        upper = numpy.triu_indices(len(x), 1)
        return numpy.abs(numpy.subtract.outer(x, x))[upper].mean()

    for levels, least in (((0, 0.1), 3), ((0, 0.1, 0.04), 3), ((0,), 2), ((0.3, 0), 5), ((0,), 20)):
        values = [round(level + rng.gauss(0, 0.03), 6) for level in levels for _ in range(rng.randrange(8, 20))]
        x = numpy.array(values)
        best = {"at": None, "energy": None}
        for at in range(least, len(values) - least + 1):
            a, b = x[:at], x[at:]
            between = numpy.abs(numpy.subtract.outer(a, b)).mean()
            energy = len(a) * len(b) / len(x) * (2 * between - mean_within(a) - mean_within(b))
            if best["energy"] is None or energy > best["energy"]:
                best = {"at": at, "energy": float(energy)}
        yield {"values": values, "minimum_segment": least, **best}


def histograms():
    rng = random.Random(9)
    for n, precision in ((1, 3), (500, 3), (3000, 2)):
        histogram = HdrHistogram(1, 60_000_000_000, precision)
        values = [int(math.exp(rng.gauss(10.3, 0.4))) for _ in range(n)]
        for value in values:
            histogram.record_value(value)
        yield {
            "precision": precision,
            "base64": histogram.encode().decode(),
            "count": n,
            "p50_ns": histogram.get_value_at_percentile(50),
            "p90_ns": histogram.get_value_at_percentile(90),
            "p99_ns": histogram.get_value_at_percentile(99),
            "exact_p50_ns": by_index(values, math.ceil(0.5 * n) - 1),
            "exact_p99_ns": by_index(values, math.ceil(0.99 * n) - 1),
            "max_ns": max(values),
        }


def marked(values):
    n = len(values)
    logs = sorted(math.log(value) for value in values)
    gap, cut = max((logs[i + 1] - logs[i], i) for i in range(n - 1))
    widest = max(logs[cut] - logs[0], logs[-1] - logs[cut + 1])
    least = 0.35 if n < 6 else 0.25 if n < 10 else 0.15
    return gap >= 1.5 * widest and gap >= math.log1p(least)


def false_marks():
    rng = random.Random(1)
    print("n     CV 3 %   CV 7 %  CV 13 %")
    for n in (3, 4, 5, 6, 7, 9, 10, 15, 30):
        shares = []
        for cv in (0.03, 0.07, 0.13):
            hits = sum(marked([math.exp(rng.gauss(0, cv)) for _ in range(n)]) for _ in range(40_000))
            shares.append(f"{hits / 400:7.2f}%")
        print(f"{n:<4}", *shares)


if "--clusters" in sys.argv:
    false_marks()
else:
    answers = {
        "one_sample": [one_sample(values) for values in samples()],
        "two_samples": list(two_samples()),
        "rankings": list(rankings()),
        "bootstraps": list(bootstraps()),
        "rank_sums": list(rank_sums()),
        "tails": list(tails()),
        "components": list(components()),
        "energy_splits": list(energy_splits()),
        "histograms": list(histograms()),
    }
    print(json.dumps(answers, indent=1))
