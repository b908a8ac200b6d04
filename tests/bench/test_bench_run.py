"""The one runner: a suite in a few lines, one lock, one spelling of options; JSON, page and tables."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from arr_coc_lab.bench.options import BenchOptions

from arr_coc.core.errors import InputError
from arr_coc_lab.bench import run, suite
from arr_coc_lab.bench.report import Report, Table, read_document
from arr_coc_lab.bench.run import BenchRun, PlainScreen, RichScreen, locked, perform
from arr_coc_lab.bench.suite import Suite, suites
from arr_coc_lab.options import flags_of, option, parse


@dataclass(frozen=True, kw_only=True)
class CountOptions(BenchOptions):
    """What a benchmark of a few lines is asked."""

    n: int = option(2, "So many.", least=1)
    family: tuple[str, ...] = option((), "May be repeated.")


def counted(options: CountOptions, bench: BenchRun) -> Report:
    table = Table("Counted", {"what": "what", "kept": "bar"}, ({"what": options.n, "kept": True},), {"seed": "1"})
    return Report.of(table, lines=[f"families: {len(options.family)}"])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Suite:
    made = Suite("counted", "Counts.", CountOptions, "nowhere:counted", "", ("--n 3",), "counted", {})
    monkeypatch.setattr(Suite, "measuring", lambda self: counted)
    return made


def test_one_report_becomes_json_page_and_tables(small, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- counted: begin -->\nold\n<!-- counted: end -->\nafter\n")
    options = CountOptions(n=3, out=tmp_path / "out", page=page, as_json=True)
    for screen in (PlainScreen(), RichScreen()):
        (report,) = perform(small, options, screen)
        assert json.loads(capsys.readouterr().out) == report.document
    assert read_document(tmp_path / "out" / "counted.json", "counted") == report.document
    assert "| 3 | kept |" in page.read_text()
    assert "old" not in page.read_text()
    for screen in (PlainScreen(), RichScreen()):
        perform(small, CountOptions(out=tmp_path / "out"), screen)
        shown = capsys.readouterr().out
        assert all(
            words in shown for words in ("Counted", "seed: 1", "families: 0", "1 of 1 bars kept", "counted.json")
        )


def test_what_cannot_be_leaves_no_trace(small, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="--n 0 measures nothing; give at least 1"):
        perform(small, CountOptions(n=0, out=tmp_path / "new"))
    assert not (tmp_path / "new").exists()

    def refusing(options: CountOptions, bench: BenchRun) -> Report:
        raise InputError("no")

    monkeypatch.setattr(Suite, "measuring", lambda self: refusing)
    with pytest.raises(InputError, match="no"):
        perform(small, CountOptions(out=tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        perform(small, CountOptions(out=tmp_path / "file"))


def test_two_runs_never_write_into_one_folder(tmp_path):
    pytest.importorskip("fcntl")
    program = "import sys; from pathlib import Path; from arr_coc_lab.bench.run import locked\n"
    program += "with locked(Path(sys.argv[1])): pass"
    with locked(tmp_path):
        other = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    assert "another bench writes into" in other.stderr
    with locked(tmp_path):
        pass


def test_every_suite_says_what_it_is_and_has_what_measures_it():
    names = [one.name for one in suites()]
    assert {"real", "vqa", "needle", "pages", "words", "peers", "esper", "video", "classic", "hypotheses"} <= set(names)
    for one in suites():
        assert one.summary.endswith((".", "?"))
        assert one.examples
        assert callable(one.measuring())
        assert all(item.metadata.get("help") for item in fields(one.options))
        flags = [flag for item in fields(one.options) for flag in flags_of(item)]
        assert len(flags) == len(set(flags)), "no option is spelled twice"


@pytest.mark.parametrize("one", suites(), ids=lambda one: one.name)
def test_both_command_lines_give_the_same_options(one, monkeypatch):
    """`python -m` through argparse and `arr-coc` through typer: the same words, the same dataclass."""
    from typer.testing import CliRunner

    from arr_coc_lab.cli import bench as command

    taken: list[Any] = []
    monkeypatch.setattr(command, "perform", lambda chosen, options, screen: taken.append(options))
    words = ["--out", "here", "--json"]
    for item in fields(one.options):
        kind = str(item.type)
        if "bool" in kind or item.name in ("out", "page"):
            continue
        value = item.metadata.get("choices", ["3" if "int" in kind else "0.5" if "float" in kind else "word"])[0]
        if kind.startswith("tuple") and "..." not in kind:
            continue
        words += [flags_of(item)[0], value] * (2 if kind.startswith("tuple") else 1)
    result = CliRunner().invoke(command.app, [one.name, *words])
    assert result.exit_code == 0, result.output
    assert taken == [parse(one.options, words, None)]
    assert taken[0].out == Path("here")


def test_shares_and_documents_of_another_kind_are_refused(tmp_path):
    assert suite.parse_shares("1/8, 0.25") == (0.25, 0.125)
    for wrong in ("", "x", "2", "1/0"):
        with pytest.raises(InputError, match="--keeps"):
            suite.parse_shares(wrong)
    (tmp_path / "a.json").write_text('{"kind": "peers"}')
    with pytest.raises(InputError, match="not written by arr-coc bench needle"):
        read_document(tmp_path / "a.json", "needle", "needle")


def test_a_program_takes_its_own_defaults_where_none_are_given(monkeypatch, small):
    taken: list[Any] = []
    monkeypatch.setattr(run, "suite", lambda name: small)
    monkeypatch.setattr(run, "perform", lambda chosen, options, screen: taken.append(options))
    main = run.program("counted", n=9)
    main(["--family", "a", "b", "--family", "c"])
    main(["--n", "4"])
    assert [(one.n, one.family) for one in taken] == [(9, ("a", "b", "c")), (4, ())]
