#!/usr/bin/env python3
"""Lists the ranges of tests/dates whose named end the data leave out. Only the standard library (Python 3.11).

usage: date_ranges.py write    writes crates/schema/tests/dates/labelling-<language>.jsonl anew
       date_ranges.py count    counts what the labels of datasets/scenarios do with a named end

The data come from half-open intervals: `(2018-10-01,2018-10-07,P6D)` of "from 10/1/2018 - 10/7/2018" became
2018-10-01/2018-10-06 and so leaves out the day that the sentence names. The ranges of LABELLING.md hold both ends, and so
do the labels of the scenarios (`count`). `write` derives what a line should say from the line alone: its last day, month or
year is moved to the end of the interval, and only where the phrase joins two ends by a word of its language ("to", "bis",
"から") and names that very end. Lines of the files with another reason are kept: they were judged by hand.
"""
import datetime, glob, json, os, re, sys, tomllib
from collections import Counter

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
DATES = os.path.join(ROOT, "crates/schema/tests/dates")
TABLES = os.path.join(ROOT, "crates/schema/time")
REASON = "A range holds both ends that the sentence names; the data leave out the last one."
# What joins the two ends of a range; "and" does only behind or before a word for "between".
JOINS = {
    "en": r"\b(to|till?|until|through)\b|between.*\band\b", "de": r"\bbis\b|zwischen.*\bund\b",
    "es": r"\b(al?|hasta|hacia)\b|entre.*\by\b", "fr": r"\b(au?|à|jusqu)\b|entre.*\bet\b",
    "pt": r"\b(ao?|at[eé])\b|entre.*\be\b", "ar": r"إلى|الى|حتى|بين.* و", "hi": r"से|और.*बीच", "zh": r"[到至]|和.*之间",
    "ja": r"から|まで|と.*間", "ko": r"에서|부터|까지|[와과].*사이",
}
MARKS = r"[-–—~〜]"
# Words for the moment of speaking.
NOW = {"en": "now", "de": "jetzt", "es": "ahora", "fr": "maintenant", "pt": "agora", "ar": "الآن", "hi": "अब", "zh": "现在",
       "ja": "今", "ko": "지금"}


def folded(text):
    """Text in lower case with plain digits."""
    return "".join(str(int(c)) if c.isdecimal() and not c.isascii() else c for c in text.lower())


def words(table, section, key):
    """Words of a list of the table, in lower case."""
    return [word.lower() for word in table.get(section, {}).get(key, [])]


def number_words(table, number):
    """How a number up to 31 is written, in digits and in words of the table."""
    simple = {**table["numbers"], **table.get("multipliers", {}), **table.get("ordinals", {})}
    of = lambda value: [word.lower() for word, own in simple.items() if own == value]
    out = of(number)
    tens, ones = divmod(number, 10)
    if tens and ones:
        heads = of(tens * 10) + [a + b for a in ([""] if tens == 1 else of(tens)) for b in of(10)]
        out += [head + joint + one for head in heads for one in of(ones) for joint in ("", "-", " ", " y ")]
    return out


def holds(phrase, names, language):
    """Whether one of the names stands in the phrase: as a word or shortened to three letters, where words have blanks."""
    if language in "zh ja ko":
        return any(name in phrase for name in names)
    own = re.findall(r"[^\W\d]+", phrase)
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", phrase) or any(name[:3] == word for word in own) for name in names)


def is_named(table, language, phrase, end, form, reference):
    """Whether the phrase names the date `end`, a year, month or day as `form` says."""
    numbers = [int(number) for number in re.findall(r"\d+", phrase)]
    spelled = "".join(str(table["numbers"].get(c, "")) if table.get("spelled_digits") else "" for c in phrase)
    if form == 4:
        return end.year in numbers or str(end.year) in spelled
    if form == 7:
        order = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
                 "november", "december"]
        names = words(table, "months", order[end.month - 1]) + number_words(table, end.month) * (language in "zh ja ko")
        return end.month in numbers or holds(phrase, names, language)
    weekday = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"][end.weekday()]
    names = words(table, "weekdays", weekday) + number_words(table, end.day)
    names += words(table, "days", str((end - reference).days)) + [NOW[language]] * (end == reference)
    return end.day in numbers or holds(phrase, names, language)


def moved(value, form):
    """The date, month or year after `value`."""
    if form == 4:
        return str(int(value) + 1)
    if form == 7:
        year, month = int(value[:4]), int(value[5:])
        return f"{year + month // 12}-{month % 12 + 1:02}"
    return str(datetime.date.fromisoformat(value) + datetime.timedelta(1))


def ours(line, table):
    """The values that the line should have; nothing where it is right."""
    language, phrase = line["language"], folded(line["phrase"]).strip()
    if not re.search(JOINS[language], phrase) and not re.search(MARKS, phrase[1:-1]):
        return []
    reference = datetime.date.fromisoformat(line["reference"][:10])
    out = []
    for value in line["expect_any"]:
        first, last = (value.split("/") * 2)[:2]
        if len(last) not in (4, 7, 10) or not any(timex.startswith("(") for timex in line["timex"]):
            return []
        end = moved(last, len(last))
        whole = datetime.date.fromisoformat(f"{end}-01-01"[:10])
        # The interval must end there: (2018-10-01,2018-10-07,P6D), with XXXX for a year that is left open.
        ends = [timex.strip("()").split(",")[1] for timex in line["timex"] if timex.startswith("(")]
        weekday = f"XXXX-WXX-{whole.isoweekday()}"
        if not any(of == weekday or re.fullmatch(of.replace("X", "."), str(whole)) for of in ends):
            return []
        quarter = re.search(r"[qt]([1-4])$", phrase)
        if quarter and whole.month == int(quarter[1]) * 3 - 2:
            # The end is named as a quarter and is over with its third month.
            out.append(f"{first[:4]}-{first[5:7] or '01'}/{whole.year}-{whole.month + 2:02}")
        elif is_named(table, language, phrase, whole, len(last), reference):
            out.append(f"{first}/{end}")
        else:
            return []
    return out


def write():
    for path in sorted(glob.glob(os.path.join(DATES, "??.jsonl"))):
        code = os.path.basename(path)[:2]
        with open(os.path.join(TABLES, f"{code}.toml"), "rb") as file:
            table = tomllib.load(file)
        target = os.path.join(DATES, f"labelling-{code}.jsonl")
        with open(target, encoding="utf-8") as file:
            kept = [line for line in map(json.loads, file) if line["reason"] != REASON]
        derived = []
        with open(path, encoding="utf-8") as file:
            for line in map(json.loads, file):
                values = ours(line, table)
                if values:
                    derived.append({key: line[key] for key in ("input", "phrase", "reference")}
                                   | {"ours": values, "reason": REASON})
        with open(target, "w", encoding="utf-8") as file:
            for line in kept + derived:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        print(f"{code}: {len(kept)} by hand, {len(derived)} derived")


def count():
    """Labels `A/B` of days or years whose evidence joins the number of A to that of B, or to the one after B."""
    join = "(?:" + "|".join(f"(?:{join})" for join in JOINS.values()) + f"|{MARKS})"
    counts = Counter()
    for path in sorted(glob.glob(os.path.join(ROOT, "datasets/scenarios/*.json"))):
        with open(path, encoding="utf-8") as file:
            scenario = json.load(file)
        turns = {turn["turn_id"]: turn["text"] for session in scenario["sessions"] for turn in session["turns"]}
        for record in scenario["records"]:
            ends = record["dimension"]["time"].split("/")
            if len(ends) != 2 or len(ends[0]) not in (4, 10) or len(ends[0]) != len(ends[1]):
                continue
            text = " | ".join(folded(turns[turn]) for turn in dict.fromkeys([*record["evidence"], record["source_turn"]]))
            number = lambda value: int(value[-2:]) if len(value) == 10 else int(value)

            def joined(end):
                gap = r"[^\d|]{0,25}?"
                return re.search(rf"(?<!\d)0?{number(ends[0])}(?!\d){gap}{join}{gap}(?<!\d)0?{number(end)}(?!\d)(?!주)", text)

            language = scenario["language"][:2]
            holds, leaves = joined(ends[1]), joined(moved(ends[1], len(ends[1])))
            if "-v" in sys.argv and (holds or leaves):
                print(scenario["scenario_id"], record["dimension"]["time"], bool(holds), (holds or leaves)[0], sep="\t")
            counts[language, "holds the named end"] += bool(holds)
            counts[language, "leaves it out"] += bool(leaves and not holds)
    for of in sorted(counts):
        print(*of, counts[of], sep="\t")


if __name__ == "__main__":
    {"write": write, "count": count}[sys.argv[1]]()
