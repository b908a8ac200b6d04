"""The suites and their options: a dataclass each, from which the command line is made.

Nothing heavy is imported here, so that `arr-coc bench NAME --help` is quick. To add a suite, write its options, an
entry in `SUITES`, and a module `bench/NAME.py` with `plan(options) -> run.Plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI

from ..options import option


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of all suites."""

    out: Path | None = option(None, "Folder for rows and JSON; an interrupted run resumes from it.")
    as_json: bool = option(False, "Print JSON only.", flag="--json")
    device: str = option("cpu", "cpu, cuda, cuda:1.")
    workers: int = option(1, "Number of processes, each on one thread.", least=1)
    seconds: float | None = option(None, "Start nothing new after this time, and show the results so far.")


@dataclass(frozen=True, kw_only=True)
class NeedleOptions(BenchOptions):
    n: int | None = option(None, "Questions of each family. [default: 2048]", least=1)
    quick: bool = option(False, "20 questions of each family: under 3 minutes on 2 cores.")
    family: tuple[str, ...] = option((), "Only this family; may be repeated.")
    size: str = option("512x512", "Size of the pictures.", metavar="HEIGHTxWIDTH")
    seed: int = option(1, "Seed of the test pictures.")
    weights: Path | None = option(None, "Folder with mini and scorer. [default: those of the package]")


@dataclass(frozen=True, kw_only=True)
class RealOptions(BenchOptions):
    data: str = option(
        help="A folder with records.jsonl, parquet or jsonl of a public set, or documents:10 or scans:10 for drawn "
        "documents of ten pages."
    )
    source: tuple[str, ...] = option((), "Only these records; may be repeated.")
    limit: tuple[str, ...] = option(
        (), "Maximum number of questions of each source, drawn by the seed; may be repeated.", metavar="N|SOURCE=N"
    )
    keeps: str | None = option(None, "Shares of the full tokens; numbers of tokens for documents.")
    relevance: tuple[str, ...] = option(
        (),
        "A source by name, auto+ocr, the folder of a scorer, or a control: centre, uniform, random, saliency; may be "
        "repeated. [default: auto, look, scorer and the controls; with --ask auto]",
    )
    strategy: str = option("overlay", "overlay or quadtree.", choices=("overlay", "quadtree"))
    seed: int = option(0, "Seed of the drawn questions and of the controls.")
    ask: bool = option(False, "Let a model answer; score exact match and ANLS, or the score of --task.", flag="--ask")
    model: str = option(MINI, "For --ask: mini, a folder, or a name on the hub.", flag=("--model", "-m"))
    ways: tuple[str, ...] = option((), "For --ask: only ways whose names contain one of these.")
    task: str = option("", "For --ask: docvqa, infovqa or chartqa: its prompt and its score.")


@dataclass(frozen=True, kw_only=True)
class RivalsOptions(BenchOptions):
    data: tuple[str, ...] = option((), "Folders or tables as for `bench real`. [default: 40 drawn pages]")
    limit: int | None = option(None, "Number of questions of each set, drawn by the seed.", least=1)
    ways: tuple[str, ...] = option((), "Only ways whose names contain one of these.")
    keeps: str = option("1/4", "Shares of the full tokens.")
    seed: int = option(0, "Seed of the drawn questions.")


@dataclass(frozen=True, kw_only=True)
class FadingOptions(BenchOptions):
    n: int = option(7, "Recordings of 20 screens.", least=1)
    seed: int = option(51, "Seed of the screens.")


@dataclass(frozen=True, kw_only=True)
class PeersOptions(BenchOptions):
    n: int | None = option(None, "Pictures of each family. [default: 2048]", least=1)
    quick: bool = option(False, "8 pictures of each family, a few systems: under 2 minutes on 2 cores.")
    peers: tuple[str, ...] = option((), "Only systems whose name contains this; may be repeated.")
    family: tuple[str, ...] = option((), "Only this family; may be repeated.")
    keeps: tuple[float, ...] = option((), "Shares of the tokens; may be repeated. [default: 1/4 1/8 1/16 1/32]")
    seed: int = option(20261115, "Seed of the test pictures.")
    weights: Path | None = option(None, "Folder with mini and scorer. [default: those of the package]")


@dataclass(frozen=True, kw_only=True)
class VideoBenchOptions(BenchOptions):
    n: int | None = option(None, "Needle clips. [default: 512]", least=1)
    quick: bool = option(False, "8 clips of 4 frames at 1/16.")
    frames: int = option(8, "Frames of each clip.", least=2)
    family: tuple[str, ...] = option((), "Families of Needle World, in turn. [default: cards]")
    keep: tuple[float, ...] = option((), "Shares of the full tokens; may be repeated. [default: 1/32 … 1/4]")
    batch: int = option(8, "Clips at a time.", least=1)
    threads: int = option(2, "Threads of the optical flow.", least=1)
    seed: int = option(1, "Seed of the clips.")
    weights: Path | None = option(None, "Folder with mini, scorer and video. [default: those of the package]")


@dataclass(frozen=True, kw_only=True)
class SpeedOptions(BenchOptions):
    repeats: int = option(15, "Runs for each median; whole commands are run five times at most.", least=1)
    tiny: bool = option(False, "With --device: use tiny shapes, only to check that it runs.")


@dataclass(frozen=True, kw_only=True)
class HypothesesBenchOptions(BenchOptions):
    n: int = option(300, "Test pictures of each family.", least=1)
    quick: bool = option(False, "6 pictures of each family: wide intervals.")
    seed: int = option(11, "Seed of the test pictures.")
    weights: Path | None = option(None, "Folder with mini and scorer. [default: those of the package]")


@dataclass(frozen=True, kw_only=True)
class SourceOptions(BenchOptions):
    each: int = option(15, "Hard pictures of each family.", least=1)
    side: int = option(512, "Side of the pictures in pixels.", least=256)
    keep: float = option(0.5, "Share of the full tokens, for all looks together.")
    seed: int = option(38, "Seed of the pictures.")


@dataclass(frozen=True)
class Suite:
    """A benchmark: name, dataclass of options, and text of `--help`. Its module is `bench.NAME`."""

    name: str
    options: type[BenchOptions]
    summary: str
    about: str = ""
    examples: tuple[str, ...] = ()
    module: str = ""

    def plan(self) -> Callable[[Any], Any]:
        """Import the module of the suite and return its `plan`."""
        return import_module(f"arr_coc_lab.bench.{self.module or self.name}").plan

    def help(self, program: str) -> str:
        """Return the text of `--help`. program: the beginning of the command."""
        examples = [f"  {program} {example}".rstrip() for example in self.examples]
        parts = [self.summary, self.about, "\n".join(["\b", "Examples:", *examples]) if examples else ""]
        return "\n\n".join(part.strip() for part in parts if part)


SUITES = (
    Suite(
        "needle",
        NeedleOptions,
        "Count mini's right answers on Needle World.",
        "By family, allocation (full, uniform, random, shuffled, scorer and oracle) and share of the tokens (1/4 to "
        "1/32), on the test split (held-out seeds and typefaces); with the calibration of the uncertainty.",
        ("--quick", "--device cuda --out out/bench", "--device cuda --n 512 --size 768x1024"),
    ),
    Suite(
        "real",
        RealOptions,
        "Measure coverage of the answer's boxes; with --ask, answers.",
        "Takes any folder whose records.jsonl has image, query and boxes (x0, y0, x1, y1 in 0–1) on each line, with "
        "answer for --ask, and source if there are several. Public sets have image, question and answers.",
        (
            "--data DIR --limit 12",
            "--data DIR --relevance scorer --relevance words --limit 100 --limit forms=400",
            "--data DIR --ask --source funsd --source chartqa --limit 100 --out out/ask",
            "--data pages --relevance words --limit 400",
            "--data documents:10 --limit 150 --keeps '64 256 1024'",
            "--data 'docvqa/*.parquet' --ask --task docvqa --model Qwen/Qwen3-VL-2B-Instruct --device cuda",
        ),
    ),
    Suite(
        "rivals",
        RivalsOptions,
        "Compare pack with other ways to send a picture.",
        "At equal tokens, and with attach. mini answers, without this library. A record's source begins with its set.",
        (
            "--limit 100",
            "--data needle pages DIR --keeps '1/4 1/8' --limit 100 --ways pack attached",
        ),
    ),
    Suite("fading", FadingOptions, "Measure how the proxy reduces older screens.", "Tokens, cache misses and answers."),
    Suite(
        "peers",
        PeersOptions,
        "Compare ARR-COC with published token reductions.",
        "FastV, PyramidDrop, SparseVLM, VisionZip, DivPrune, ToMe and average pooling, rebuilt on the bundled mini, "
        "with controls and oracles, on the same pictures, at equal tokens and at equal compute.",
        ("--quick", "--device cuda --out out/peers", "--peers FastV --peers overlay --n 64"),
        module="peers.bench",
    ),
    Suite(
        "video",
        VideoBenchOptions,
        "Count mini's right answers about clips of Needle World.",
        "By system and share of the tokens; with the detection of cuts.",
        ("--quick", "--device cuda --batch 64 --threads 16 --out out/bench"),
    ),
    Suite(
        "speed",
        SpeedOptions,
        "Time look, ask, video and whole commands.",
        "On a CPU, medians beside naive forms: about a minute with two threads. On a GPU, a Qwen3-VL of 2B shapes with "
        "random weights: search with the scorer, tower, prompt and decoding, at most three minutes.",
        ("", "--repeats 5 --out out/bench", "--device cuda --out out/bench"),
    ),
    Suite(
        "hypotheses",
        HypothesesBenchOptions,
        "Test each claim of the design against a rival.",
        "Every rival is a relevance map, allocated by the same overlay at equal tokens and read by mini on the same "
        "test pictures of Needle World. Rivals that are not installed are left out.",
        ("--quick", "--device cuda --out out/bench"),
    ),
    Suite(
        "source",
        SourceOptions,
        "Compare the original project's pipeline with ours.",
        "At equal tokens, also with each of its stages left out, on hard pictures of Needle World; a picture of 512² "
        "takes about 15 seconds on two cores.",
        ("--each 15 --out out/source", "--each 147 --side 1280 --device cuda --out out/source"),
    ),
)


def suite(name: str) -> Suite:
    """Find a suite by name."""
    found = next((one for one in SUITES if one.name == name), None)
    if found is None:
        raise InputError(f"unknown suite {name!r}; choose from {', '.join(one.name for one in SUITES)}")
    return found


# ---- options of several suites ---------------------------------------------------------------------------------------


def parse_shares(text: str, most: float = 1.0) -> tuple[float, ...]:
    """Parse "1/4 1/8" or "0.25,0.125" to shares, largest first."""
    try:
        shares = {float(Fraction(one)) for one in text.replace(",", " ").split()}
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f'--keeps {text!r} is not a list of shares; give for example "1/4 1/8"') from error
    if not shares or not all(0 < share <= most for share in shares):
        raise InputError(f"--keeps {text!r} needs shares above 0 and at most {most:g}")
    return tuple(sorted(shares, reverse=True))


def chosen_families(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return all families of Needle World, or those named, in the order of the tables."""
    from ..train.evaluate import FAMILIES

    wanted = tuple(names or ())
    unknown = sorted(set(wanted) - set(FAMILIES))
    if unknown:
        raise InputError(f"unknown family {', '.join(unknown)}; choose from {', '.join(FAMILIES)}")
    return tuple(name for name in FAMILIES if not wanted or name in wanted)
