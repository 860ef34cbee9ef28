#!/usr/bin/env python3
"""Compares what a peer's suites reported with what is expected of them.

    compare.py EXPECTED SUITE=REPORT...

EXPECTED is an expected.yaml: suites, and below each its specs, as hack/peers/README.md describes. A REPORT is Ginkgo's JSON
report or the output of test2json; a SUITE may be given several times, and then a spec passes if it passed every time. Prints
what is not as expected, and a table; the exit code is 1 if anything is not as expected.
"""

import argparse
import json
import re
import sys

PASS, SKIP, DIFFERS, FAIL = "pass", "skip", "differs", "fail"
ENTRY = re.compile(r'^  ("(?:[^"\\]|\\.)*"): (.+)$')
SUITE = re.compile(r"^([^\s#:][^:]*):\s*$")


def read_expected(path):
    """The expectations of a file: {suite: {spec: (word, reason)}}. A small part of YAML, read line by line."""
    suites, current = {}, None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip()
            if not line or line.lstrip().startswith("#"):
                continue
            if found := SUITE.match(line):
                current = suites.setdefault(found[1], {})
                continue
            found = ENTRY.match(line)
            if not found or current is None:
                sys.exit(f"{path}:{number}: this is neither a suite nor a spec with what is expected of it: {line}")
            spec, (word, _, reason) = json.loads(found[1]), found[2].partition(", ")
            if word not in (PASS, SKIP, DIFFERS):
                sys.exit(f"{path}:{number}: {word!r} is none of pass, skip and differs")
            if word != PASS and not reason:
                sys.exit(f"{path}:{number}: {word} needs a reason after a comma")
            if word == DIFFERS and not re.match(r"ADR \d{4}, \S", reason):
                sys.exit(f"{path}:{number}: a difference names its decision: differs, ADR 0000, why")
            if spec in current:
                sys.exit(f"{path}:{number}: the spec is there twice")
            current[spec] = (word, reason)
    return suites


def from_ginkgo(reports):
    """Specs that ran, in order: (name, outcome, message)."""
    for report in reports:
        for spec in report.get("SpecReports") or []:
            failure = spec.get("Failure") or {}
            message = failure.get("Message", "")
            state = spec["State"]
            name = " ".join([*(spec.get("ContainerHierarchyTexts") or []), spec.get("LeafNodeText", "")]).strip()
            if spec["LeafNodeType"] != "It":
                # A suite's own set-up: of interest only if it failed.
                if state not in ("passed", "skipped"):
                    yield f"[{spec['LeafNodeType']}] {name}".strip(), FAIL, message
            elif state == "passed":
                yield name, PASS, ""
            elif state in ("skipped", "pending"):
                # Without a message the spec was not asked for: another one was focused on.
                if message or state == "pending":
                    yield name, SKIP, message or "pending"
            else:
                where = failure.get("Location") or {}
                yield name, FAIL, f"{message} ({where.get('FileName', '').rsplit('/', 1)[-1]}:{where.get('LineNumber', 0)})"
        if not report.get("SuiteSucceeded", True) and not report.get("SpecReports"):
            reasons = report.get("SpecialSuiteFailureReasons") or ["the suite did not run"]
            yield "[suite]", FAIL, "; ".join(reasons)


def from_test2json(lines):
    """The same of `go tool test2json`. Tests that only hold subtests count as well: they have assertions of their own."""
    words = {"pass": PASS, "skip": SKIP, "fail": FAIL}
    output = {}
    for line in lines:
        event = json.loads(line)
        test, action = event.get("Test"), event["Action"]
        if action == "output" and test:
            output.setdefault(test, []).append(event["Output"].rstrip())
        elif test and action in words:
            said = [line.strip() for line in output.get(test, []) if not re.match(r"\s*(===|---)", line)]
            yield test, words[action], " ".join(said[-6:])
        elif not test and action == "fail" and not output:
            yield "[suite]", FAIL, "the program failed before the first test"


def read_report(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.lstrip().startswith("["):
        return list(from_ginkgo(json.loads(text)))
    return list(from_test2json(line for line in text.splitlines() if line.startswith("{")))


def numbered(specs):
    """Specs of one report with names that are unique: a second one of the same name gets a number."""
    seen = {}
    for name, outcome, message in specs:
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name} #{seen[name]}"), outcome, message


def merge(reports):
    """{spec: (outcome, message)} of several runs of one suite: the worst counts."""
    order = [PASS, SKIP, FAIL]
    merged = {}
    for report in reports:
        for name, outcome, message in numbered(report):
            if name not in merged or order.index(outcome) > order.index(merged[name][0]):
                merged[name] = (outcome, message)
    return merged


def judge(spec, outcome, message, expected):
    """What is wrong, or None."""
    if expected is None:
        return f"new spec, it ended with {outcome}: {message}" if outcome != PASS else "new spec, it passed"
    word, reason = expected
    if word == PASS and outcome != PASS:
        return f"{outcome} instead of pass: {message}"
    if word == SKIP and outcome != SKIP:
        return f"{outcome} instead of skip ({reason}): {message}"
    if word == DIFFERS and outcome == PASS:
        return f"passes, though it is said to differ ({reason})"
    if word == DIFFERS and outcome == SKIP:
        return f"was skipped, though it is said to differ ({reason}): {message}"
    return None


def compare(expected, reports, whole=True):
    """(rows of the table, what is wrong) of {suite: [reports]}."""
    rows, wrong = [], []
    for suite, runs in reports.items():
        known = expected.get(suite, {})
        specs = merge(runs)
        counted = {PASS: 0, SKIP: 0, DIFFERS: 0}
        for spec, (outcome, message) in specs.items():
            problem = judge(spec, outcome, " ".join(message.split())[:600], known.get(spec))
            if problem:
                wrong.append((suite, spec, problem))
            elif outcome == FAIL:
                counted[DIFFERS] += 1
            else:
                counted[outcome] += 1
        for spec in known if whole else ():
            if spec not in specs:
                wrong.append((suite, spec, "is expected, and not in the report"))
        rows.append((suite, len(specs), counted[PASS], counted[DIFFERS], counted[SKIP]))
    return rows, wrong


def table(rows):
    total = ("all", *(sum(row[at] for row in rows) for at in range(1, 5)))
    head = ("suite", "specs", "passed", "known differences", "skipped")
    lines = [head, *rows, total]
    widths = [max(len(str(line[at])) for line in lines) for at in range(5)]

    def shown(line):
        first, *numbers = (str(cell) for cell in line)
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:]))]
        return "| " + " | ".join(cells) + " |"

    rule = "|" + "|".join("-" * (width + 1) + ("-" if at == 0 else ":") for at, width in enumerate(widths)) + "|"
    return "\n".join([shown(head), rule, *(shown(line) for line in lines[1:])])


def as_expected(reports):
    """The reports as the text of an expected.yaml, to begin one with; what failed is to be judged by somebody."""
    out = []
    for suite, runs in reports.items():
        out.append(f"{suite}:")
        for spec, (outcome, message) in merge(runs).items():
            word = {PASS: PASS, SKIP: f"skip, {message}", FAIL: f"differs, ADR ????, {message}"}[outcome]
            out.append(f"  {json.dumps(spec, ensure_ascii=False)}: {' '.join(word.split())[:300]}")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description="Compare reports of a peer's suites with what is expected of them.")
    parser.add_argument("expected", metavar="EXPECTED")
    parser.add_argument("reports", metavar="SUITE=REPORT", nargs="+")
    parser.add_argument("--part", action="store_true", help="only some specs of the suites were run")
    parser.add_argument("--write", action="store_true", help="print the reports as an expected.yaml instead")
    args = parser.parse_args()
    reports = {}
    for argument in args.reports:
        suite, _, path = argument.partition("=")
        try:
            specs = read_report(path)
        except (OSError, ValueError) as error:
            specs = [("[suite]", FAIL, f"no report: {error}")]
        reports.setdefault(suite, []).append(specs)
    if args.write:
        print(as_expected(reports))
        return
    rows, wrong = compare(read_expected(args.expected), reports, whole=not args.part)
    for suite, spec, problem in wrong:
        print(f"UNEXPECTED {suite}: {spec}\n    {problem}")
    print(table(rows))
    if wrong:
        sys.exit(f"{len(wrong)} specs are not as {args.expected} says")


if __name__ == "__main__":
    main()
