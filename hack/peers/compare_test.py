#!/usr/bin/env python3
"""Tests of compare.py: python3 hack/peers/compare_test.py"""

import json
import os
import tempfile
import unittest

import compare


def spec(name, state, message="", kind="It"):
    return {"ContainerHierarchyTexts": ["Reclaim"], "LeafNodeText": name, "LeafNodeType": kind, "State": state,
            "Failure": {"Message": message} if message else None}


def report(*specs):
    return list(compare.from_ginkgo([{"SuiteSucceeded": True, "SpecReports": list(specs)}]))


class Compare(unittest.TestCase):
    def expected(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
            file.write(text)
        self.addCleanup(os.unlink, file.name)
        return compare.read_expected(file.name)

    def problems(self, text, *specs, whole=True):
        rows, wrong = compare.compare(self.expected(text), {"reclaim": [report(*specs)]}, whole)
        return rows, [problem for _, _, problem in wrong]

    def test_all_as_expected_is_counted_and_nothing_is_wrong(self):
        text = 'reclaim:\n  "Reclaim a": pass\n  "Reclaim b": skip, no claims here\n  "Reclaim c": differs, ADR 0007, why\n'
        rows, wrong = self.problems(text, spec("a", "passed"), spec("b", "skipped", "no DRA"), spec("c", "failed", "no"))
        self.assertEqual((rows, wrong), ([("reclaim", 3, 1, 1, 1)], []))

    def test_a_failure_that_nobody_expects_is_wrong(self):
        for state in ("failed", "panicked", "timedout", "interrupted"):
            _, wrong = self.problems('reclaim:\n  "Reclaim a": pass\n', spec("a", state, "oh"))
            self.assertTrue(wrong[0].startswith("fail instead of pass: oh"), wrong)

    def test_a_difference_that_has_gone_is_wrong(self):
        _, wrong = self.problems('reclaim:\n  "Reclaim a": differs, ADR 0007, why\n', spec("a", "passed"))
        self.assertEqual(wrong, ["passes, though it is said to differ (ADR 0007, why)"])

    def test_a_skip_that_nobody_expects_is_wrong_and_so_is_one_that_has_gone(self):
        _, wrong = self.problems('reclaim:\n  "Reclaim a": pass\n', spec("a", "skipped", "few nodes"))
        self.assertEqual(wrong, ["skip instead of pass: few nodes"])
        _, wrong = self.problems('reclaim:\n  "Reclaim a": skip, few nodes\n', spec("a", "passed"))
        self.assertTrue(wrong[0].startswith("pass instead of skip"), wrong)

    def test_new_and_missing_specs_are_wrong(self):
        _, wrong = self.problems('reclaim:\n  "Reclaim a": pass\n', spec("b", "passed"))
        self.assertEqual(wrong, ["new spec, it passed", "is expected, and not in the report"])
        _, wrong = self.problems('reclaim:\n  "Reclaim a": pass\n  "Reclaim b": pass\n', spec("b", "passed"), whole=False)
        self.assertEqual(wrong, [])

    def test_specs_that_were_not_asked_for_do_not_count(self):
        rows, wrong = self.problems('reclaim:\n  "Reclaim a": pass\n', spec("a", "passed"), spec("b", "skipped"))
        self.assertEqual((rows, wrong), ([("reclaim", 1, 1, 0, 0)], []))

    def test_of_several_runs_the_worst_counts(self):
        runs = [report(spec("a", "passed")), report(spec("a", "failed", "13 of 8")), report(spec("a", "passed"))]
        _, wrong = compare.compare(self.expected('reclaim:\n  "Reclaim a": pass\n'), {"reclaim": runs})
        self.assertIn("13 of 8", wrong[0][2])

    def test_two_specs_of_one_name_are_told_apart(self):
        rows, wrong = self.problems('reclaim:\n  "Reclaim a": pass\n  "Reclaim a #2": pass\n', spec("a", "passed"), spec("a", "passed"))
        self.assertEqual((rows, wrong), ([("reclaim", 2, 2, 0, 0)], []))

    def test_a_suite_whose_set_up_failed_is_wrong(self):
        _, wrong = self.problems('reclaim:\n  "Reclaim a": pass\n', spec("", "failed", "no server", "BeforeSuite"))
        self.assertEqual(len(wrong), 2)
        _, wrong = self.problems("reclaim:\n", spec("", "passed", "", "BeforeSuite"))
        self.assertEqual(wrong, [])

    def test_reasons_and_decisions_are_demanded(self):
        for text in ('a:\n  "x": skip\n', 'a:\n  "x": differs, because\n', 'a:\n  "x": perhaps\n', '  "x": pass\n', "a: b\n"):
            with self.assertRaises(SystemExit, msg=text):
                self.expected(text)

    def test_output_of_test2json_is_read_with_its_subtests(self):
        events = [{"Action": "run", "Test": "TestA"}, {"Action": "output", "Test": "TestA/b", "Output": "    it broke\n"},
                  {"Action": "fail", "Test": "TestA/b"}, {"Action": "fail", "Test": "TestA"}, {"Action": "pass", "Test": "TestC"}]
        found = list(compare.from_test2json(json.dumps(event) for event in events))
        self.assertEqual([(name, outcome) for name, outcome, _ in found],
                         [("TestA/b", "fail"), ("TestA", "fail"), ("TestC", "pass")])
        self.assertEqual(found[0][2], "it broke")

    def test_what_is_written_can_be_read_again(self):
        text = compare.as_expected({"reclaim": [report(spec('a "b"', "passed"), spec("c", "skipped", "few\nnodes"))]})
        self.assertEqual(self.expected(text), {"reclaim": {'Reclaim a "b"': ("pass", ""), "Reclaim c": ("skip", "few nodes")}})


if __name__ == "__main__":
    unittest.main()
