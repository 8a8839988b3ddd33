"""Prometheus's text format, read as strictly as its grammar says, for tests."""

import collections
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
HELP = re.compile(rf"# HELP ({NAME}) (\S.*)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram)")
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL},)*{LABEL})\}})? ([-+]?(?:[0-9.]+(?:e[-+]?[0-9]+)?|Inf|NaN))", re.IGNORECASE)

Family = collections.namedtuple("Family", "name kind samples")  # samples: value by (sample's name, frozenset of labels)


def parse(text):
    """Families by name. AssertionError: the text is not what Prometheus wants."""
    assert text.endswith("\n"), "the last line has no end"
    families, helped, current = {}, None, None
    for line in text[:-1].split("\n"):
        if match := HELP.fullmatch(line):
            helped = match[1]
        elif match := TYPE.fullmatch(line):
            assert match[1] == helped and match[1] not in families, line
            current = families[match[1]] = Family(match[1], match[2], {})
        else:
            match = SAMPLE.fullmatch(line)
            assert match, f"no sample: {line!r}"
            suffixes = ("_bucket", "_sum", "_count") if current.kind == "histogram" else ("",)
            assert match[1] in [current.name + suffix for suffix in suffixes], line
            labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or "")
            key = match[1], frozenset(labels)
            assert len(key[1]) == len(labels) and key not in current.samples, f"twice: {line}"
            current.samples[key] = float(match[3])
    for family in families.values():
        check(family)
    return families


def check(family):
    assert (family.kind == "counter") == family.name.endswith("_total"), family.name
    if family.kind == "counter":
        assert min(family.samples.values()) >= 0, family
    if family.kind != "histogram":
        return
    series = collections.defaultdict(list)
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket"):
            bound = float(dict(labels)["le"])
            series[frozenset(label for label in labels if label[0] != "le")].append((bound, value))
    for labels, buckets in series.items():
        assert buckets == sorted(buckets) and [count for _, count in buckets] == sorted(count for _, count in buckets), family
        assert buckets[-1] == (float("inf"), family.samples[family.name + "_count", labels]), family
        assert (family.name + "_sum", labels) in family.samples, family


def value(families, name, **labels):
    """One sample's; None: there is none."""
    for suffix in ("_bucket", "_sum", "_count", ""):
        family = families.get(name.removesuffix(suffix) if suffix else name)
        if family is not None and (name, frozenset(labels.items())) in family.samples:
            return family.samples[name, frozenset(labels.items())]
    return None


def series(families, **labels):
    """The names of the samples that have these labels."""
    return {name for family in families.values() for name, of in family.samples if labels.items() <= dict(of).items()}
