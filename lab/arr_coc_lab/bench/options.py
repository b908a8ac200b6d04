"""What every benchmark can be asked: a dataclass each, from which both its command lines are made.

Nothing heavy is imported here, so that `arr-coc bench NAME --help` is quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from arr_coc.core.folders import MINI, WEIGHTS

from .. import LAB_WEIGHTS
from ..options import option

DEVICE = "cpu, cuda, cuda:1."


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What all of them are asked."""

    out: Path | None = option(None, "Folder for the JSON.")
    page: Path | None = option(None, "A Markdown page whose tables are made anew.")
    as_json: bool = option(False, "Print JSON and nothing else.", flag="--json")


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(BenchOptions):
    """What those are asked that run a model."""

    device: str = option("cpu", DEVICE)


@dataclass(frozen=True, kw_only=True)
class WorkersOptions(DeviceOptions):
    """What those are asked that go question by question."""

    workers: int = option(1, "Processes, each on one thread; several may share a GPU.", least=1)
    seconds: float | None = option(None, "Begin nothing after so many seconds, and show what is there.")


@dataclass(frozen=True, kw_only=True)
class WeightsOptions(DeviceOptions):
    """What those are asked that run the bundled model or one like it."""

    weights: Path | None = option(None, "Folder with mini and scorer. [default: those of the package]")


@dataclass(frozen=True, kw_only=True)
class SavedOptions(WeightsOptions):
    """What those are asked whose JSON can be shown again."""

    saved: Path | None = option(None, "Measure nothing: show a saved JSON.", flag="--from")


@dataclass(frozen=True, kw_only=True)
class SpeedOptions(BenchOptions):
    repeats: int = option(15, "Runs for each median; whole commands are run five times at most.", least=1)


@dataclass(frozen=True, kw_only=True)
class NeedleOptions(SavedOptions):
    n: int | None = option(None, "Questions for each cell. [default: 2048]", least=1)
    quick: bool = option(False, "20 questions for each cell: under 3 minutes on 2 cores.")
    family: tuple[str, ...] = option((), "Only this family; may be repeated.")
    size: str = option("512x512", "Of the pictures; what was promised is promised for 512x512.", metavar="HEIGHTxWIDTH")
    seed: int = option(1, "Seed of the test pictures.")
    page: Path | None = option(None, "Also write the tables as a page.", flag=("--markdown", "--page"))


@dataclass(frozen=True, kw_only=True)
class PagesOptions(WeightsOptions):
    seconds: float | None = option(None, "Begin no batch after so many seconds, and show what is there.")
    pack: str = option(help="Packs of pages, like val/packs/*.bin (arr-coc pages --split val --pack).")
    n: int | None = option(None, "So many questions, drawn by the seed. [default: all]", least=1)
    keeps: str = option("1/2 1/4 1/8 1/16", "Shares of the full tokens, beside all of them.")
    seed: int = option(1, "Seed of the drawn questions and of the controls.")


@dataclass(frozen=True, kw_only=True)
class HypothesesBenchOptions(DeviceOptions):
    quick: bool = option(False, "Only 42 pictures: wide intervals.")
    number: int = option(2100, "Test pictures, all families together.", least=1)
    saved: Path | None = option(None, "Make the table of a measured.json instead of measuring.", flag="--measured")
    reader: Path = option(WEIGHTS / "mini", "Folder of the reader.")
    scorer: Path = option(WEIGHTS / "scorer", "Folder of the scorer.")
    trained: Path = option(LAB_WEIGHTS / "hypotheses", "Folder of `train_hypotheses`.")
    seconds: float | None = option(None, "Begin no round that would end after so many seconds.")


@dataclass(frozen=True, kw_only=True)
class RealOptions(WorkersOptions):
    data: Path = option(help="Folder with records.jsonl, a .jsonl or a .parquet file.")
    relevance: tuple[str, ...] = option(
        (),
        "A source by name, auto+ocr, the folder of a scorer, or a control: centre, uniform, random, saliency, text "
        "regions; may be repeated. [default: auto, look, scorer and the first four]",
    )
    strategy: tuple[str, ...] = option((), "overlay or quadtree; may be repeated. [default: overlay]")
    source: tuple[str, ...] = option((), "Only these records; may be repeated.")
    limit: tuple[str, ...] = option(
        (), "At most so many of each source, drawn by the seed; may be repeated.", metavar="N|SOURCE=N"
    )
    quick: bool = option(False, "At most 12 questions of each source.")
    keeps: str | None = option(None, "Shares of the full tokens. [default: 1/4 1/8 1/16 1/32; with --ask 1/2 1/4 1/8]")
    seed: int = option(0, "Seed of the drawn questions and of the control random.")
    worst: Path | None = option(None, "Folder for pages of the questions of which least is seen.")
    ask: bool = option(
        False, "Let a model answer what must be read: exact match and ANLS, at 1/2 1/4 1/8.", flag="--ask"
    )
    model: str = option(MINI, "For --ask: mini, a folder, or a name on the hub.", flag=("--model", "-m"))


@dataclass(frozen=True, kw_only=True)
class VqaOptions(DeviceOptions):
    data: str = option(help="Parquet or jsonl as on the hub; a file, a folder or a pattern.")
    task: str = option(help="docvqa, chartqa, textvqa, vqav2, infovqa, vstar, needle")
    model: str = option(MINI, "mini, a folder, or a name on the hub.", flag=("--model", "-m"))
    keeps: str = option("1/4", "Shares of the full tokens.")
    limit: int | None = option(None, "So many questions, drawn by the seed.")
    relevance: str = option("auto", "Who says where to look; as for arr-coc ask.")
    strategy: str | None = option(None, "overlay or quadtree; the model's own by default.")
    prompt: str | None = option(None, "What follows each question. [default: the task's; mini none]")
    door: str = option("attach", "attach, or pack or proxy: a model that is not touched, by packed pictures.")
    upstream: str | None = option(None, "Of --door: an OpenAI-compatible server, or a running arr-coc proxy.")
    seed: int = option(0, "Seed of the drawn questions and of the controls.")
    out: Path = option(
        Path("out/vqa"), "Folder for answers.jsonl, vqa.json, vqa.md and worst.png; goes on where it stopped."
    )


@dataclass(frozen=True, kw_only=True)
class PackOptions(WorkersOptions, WeightsOptions):
    data: tuple[Path, ...] = option(help="A folder with records.jsonl, as arr-coc needle writes it; may be repeated.")
    source: tuple[str, ...] = option((), "Only these sources of the records; may be repeated.")
    n: int = option(200, "Questions of each kind of data, drawn by the seed.", least=1)
    keeps: str = option("1/4 1/8", "Shares of the full tokens.")
    way: tuple[str, ...] = option((), "Only these ways, full among them; may be repeated. [default: all]")
    seed: int = option(1, "Seed of the drawn questions.")


@dataclass(frozen=True, kw_only=True)
class PeersOptions(SavedOptions):
    n: int | None = option(None, "Pictures of each family. [default: 2048]")
    quick: bool = option(False, "8 pictures of each family, a few ways: under 2 minutes on 2 cores.")
    peers: tuple[str, ...] = option((), "Only ways whose name contains this; may be repeated.")
    family: tuple[str, ...] = option((), "Only this family; may be repeated.")
    keeps: tuple[float, ...] = option((), "Shares of the tokens; may be repeated. [default: 1/4 1/8 1/16 1/32]")
    seed: int = option(20261115, "Seed of the test pictures.")
    batch: int | None = option(None, "Pictures at once. [default: 256 on a GPU, 4 on a CPU]")
    seconds: float | None = option(None, "Begin no round that would end after so many seconds.")
    plot: Path | None = option(None, "Accuracy over GFLOP, as a picture.")


@dataclass(frozen=True, kw_only=True)
class ClassicBenchOptions(DeviceOptions):
    each: int = option(147, "Pictures of each of the seven families. 147: 1029 in all.")
    large: int = option(0, "Pictures of 2048×2048 of each family for the scale of 64 to 400 tokens a patch.")
    relevance: tuple[str, ...] = option(
        (), "Only this source of the registry beside ours; may be repeated. [default: all phases]"
    )
    rivals: Path | None = option(None, "Folder of train_hypotheses whose parts are read as well.")
    seconds: float | None = option(None, "Begin no batch after so many seconds.")
    saved: Path | None = option(None, "Measure nothing: show a saved classic.json.", flag="--from")
    page: Path | None = option(None, "A page whose tables are made anew.", flag=("--markdown", "--page"))


@dataclass(frozen=True, kw_only=True)
class SourceOptions(WorkersOptions):
    each: int = option(15, "Pictures of each of the seven families. 15: 105 in all; 147: 1029.", least=1)
    side: int = option(512, "Pixels along a picture's side.", least=256)
    keep: float = option(0.5, "Share of the full tokens, all looks together.")
    seed: int = option(38, "Seed of the pictures.")
    saved: Path | None = option(None, "Measure nothing: show a saved source.json.", flag="--from")


@dataclass(frozen=True, kw_only=True)
class EsperOptions(WeightsOptions):
    quick: bool = option(False, "Few pictures, no ablations: only to see that it runs.")
    number: int = option(1024, "Hard pictures of the test split.", least=0)
    zoo: int = option(200, "Zoo pictures.")
    repeats: int = option(9, "Runs for each timing.")
    only_small: bool = option(
        False, "Only what a pass costs, and arousal; writes esper_small.json.", flag="--only-small"
    )
    only: tuple[str, ...] = option((), "Only these parts or presets; writes esper_parts.json.")
    seconds: float = option(float("inf"), "Begin no ablation, tuning or training step after so many, each.")
    saved: tuple[Path, ...] = option((), "Measure nothing: show a saved table; may be repeated.", flag="--from")
    tune: int = option(0, "First choose settings on so many validation pictures, such as 512.", alone=512)
    train: int = option(0, "First train the tempering, so many steps.")
    batch: int = option(128, "Pictures of a training step.")
    save: Path | None = option(None, "Folder for settings and tempering. [default: esper beside the weights]")


@dataclass(frozen=True, kw_only=True)
class EsperGainOptions(DeviceOptions):
    keep: tuple[float, ...] = option((1 / 32,), "Shares of the tokens, all passes together.")
    number: int = option(420, "Pictures.", least=1)
    explore: bool = option(False, "Explore against exploit, on hard pictures.")
    tempering: Path | None = option(None, "A trained policy, beside the shipped one.")
    pack: str | None = option(None, "Packs of drawn pages, instead of Needle World.")
    seconds: float | None = option(None, "Begin no part after so many seconds, and show what is there.")


@dataclass(frozen=True, kw_only=True)
class VideoBenchOptions(SavedOptions):
    n: int | None = option(None, "Needle clips. [default: 512]", least=1)
    frames: int | None = option(None, "Frames of each clip. [default: 8]")
    quick: bool = option(False, "A few clips: only to see that it runs.")
    part: tuple[str, ...] = option((), "Only clips, real or speed; may be repeated.")
    family: tuple[str, ...] = option((), "Of Needle World; in turn. [default: cards]", flag=("--family", "--families"))
    reading: tuple[str, ...] = option((), "clearest, pooled, video; may be repeated.", flag=("--reading", "--readings"))
    keep: tuple[float, ...] = option(
        (), "Shares of the full tokens; may be repeated. [default: 1/32 … 1/4]", flag=("--keep", "--keeps")
    )
    data: Path | None = option(None, "Folder with records.jsonl and real clips.")
    batch: int = option(8, "Clips at a time.")
    threads: int = option(2, "For the optical flow.")
    seed: int = option(1, "Seed of the test clips.")
    split: str = option("test", "test, validation or train.")
    seconds: float | None = option(None, "Begin no batch after so many seconds.")
    markdown: Path | None = option(None, "Also write the tables there.")


@dataclass(frozen=True, kw_only=True)
class ForesightOptions(BenchOptions):
    clips: int = option(56, "Clips.", least=1)
    frames: int = option(8, "Frames of each.", least=3)
    keep: float = option(1 / 16, "Share of a frame's tokens.")
    relevance: str = option("scorer", "Who says where to look in the clips.")
    every: int = option(1, "Use every Nth frame only.", least=1)
    cascade: bool = option(False, "Streams go through clusters.")
    mips: tuple[float, ...] = option((), "Shares of temporal mips, against none.")
    split: str = option("validation", "Split of the pictures of --mips.")


@dataclass(frozen=True, kw_only=True)
class DepthOptions(BenchOptions):
    number: int = option(70, "Questions, all families together.", least=1)
    model: str = option(MINI, "The model whose encoder is left early.")


@dataclass(frozen=True, kw_only=True)
class TwoFrameOptions(WorkersOptions):
    number: int = option(210, "Clips.", least=1)
    model: str = option(MINI, "Who answers.")
    keep: float = option(0.25, "Share of a clip's tokens.")
    side: int = option(512, "Pixels of a frame.", least=64)


@dataclass(frozen=True, kw_only=True)
class WordsBenchOptions(BenchOptions):
    pages: tuple[Path, ...] = option((), "Packs of drawn pages.")
    ocr: bool = option(False, "Read the words of drawn pages by OCR.")
    pdf: int = option(0, "So many PDF pages, drawn for this.")
    data: Path | None = option(None, "Folder with records.jsonl and its pictures.")
    limit: int = option(0, "At most so many questions of each source, or pages of all packs, spread evenly.")
    strategy: str = option("overlay", "How the tokens are placed: overlay or quadtree.")
    seed: int = option(0, "Seed of the PDF pages.")


@dataclass(frozen=True, kw_only=True)
class DocumentsBenchOptions(WorkersOptions):
    number: int = option(150, "Questions.", least=1)
    pages: int = option(10, "Pages of every document.", least=2)
    each: int = option(5, "Questions of a document, at most.", least=1)
    scanned: bool = option(False, "Pages as scans, without their text layer.")
    budgets: tuple[int, ...] = option((64, 256, 1024), "Tokens for a whole document.")
    ask: int = option(0, "Let mini answer so many of the questions.")
    ask_all: int = option(0, "So many of them also with all tokens of all pages, which takes long.")
    seed: int = option(77, "Seed of the documents.")


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions(DeviceOptions):
    scorer: Path = option(help="Folder of the scorer to be analysed.")
    record: Path | None = option(None, "record.json of train_hypotheses: tensions and the outcome curve.")
    number: int = option(700, "Looks, all families together.")
    keep: float = option(0.25, "Share of the tokens.")
    size: int = option(512, "Side of the pictures.")
    seed: int = option(21, "Seed of the pictures.")
    out: Path = option(Path("docs/images"), "Folder for the plots and analysis.json.")


@dataclass(frozen=True, kw_only=True)
class CreditOptions(DeviceOptions):
    weights: Path = option(WEIGHTS / "mini", "The frozen reader: mini's folder, or an export of train mini.")
    saved: Path | None = option(
        None, "A compared.json: only show it, and write the page; nothing is trained or read.", flag="--measured"
    )
    rules: tuple[str, ...] = option(
        ("boxes", "derivative"),
        "What to learn by; the first is what others are held against.",
        choices=("boxes", "derivative", "policy", "critic"),
    )
    seconds: float = option(85.0, "Of training, each rule.")
    steps: int = option(0, "Of each rule, instead of seconds.")
    start: int = option(0, "Steps by boxes from which the other rules go on, such as 20.", least=0)
    baseline: str = option(
        "leave_one_out",
        "What a sampled allocation is held against.",
        choices=("leave_one_out", "group", "leaf", "none"),
    )
    seed: int = option(0, "Seed of the start and of all pictures learned from.")
    net: str = option("reading", "small, or reading: the bundled one's, all but what reads letters new.")
    width: int = option(128, "Features of the small scorer.")
    size: tuple[int, int] = option((512, 512), "Canvas in pixels.")
    batch: int = option(64, "Pictures a step.")
    learning_rate: float = option(1.5e-3, "At its highest.")
    keeps: tuple[float, ...] = option((1 / 4, 1 / 8), "Budgets, shares of all tokens, largest first.")
    reward: str = option("outcome", "What an answer is worth to policy and critic: outcome, simple or a file.")
    number: int = option(2100, "Test pictures, all families together.", least=1)
    at_once: int = option(75, "Test pictures in memory together.")
    device: str = option("", "cpu, cuda, cuda:1; empty: a GPU where there is one.")
    out: Path = option(Path("runs/credit"), "Checkpoints, the scorers, and compared.json.")


@dataclass(frozen=True, kw_only=True)
class GripOptions(WorkersOptions):
    data: tuple[Path, ...] = option((), "A folder with records.jsonl; may be repeated.")
    constants: bool = option(False, "Derive the numbers of the rule from pictures that this draws; needs no --data.")
    saving: bool = option(False, "Tokens that read a page printed at 300 dpi, with and without grip; needs no --data.")
    budgets: tuple[int, ...] = option((), "For --saving: tokens of a page; may be repeated. [default: 64 … 2048]")
    atlas: Path | None = option(None, "Typefaces of the printed pages that this draws (docs/print.md); else Needle's.")
    source: tuple[str, ...] = option((), "Only these records; may be repeated.")
    model: str = option(MINI, "mini, a folder, or a name on the hub.", flag=("--model", "-m"))
    n: int = option(100, "Questions of each source, drawn by the seed.", least=2)
    keeps: str | None = option(None, "Shares of the full tokens. [default: 1/4 1/8 1/16]")
    seed: int = option(0, "Seed of the drawn questions.")


@dataclass(frozen=True, kw_only=True)
class AgainOptions(WorkersOptions, WeightsOptions):
    data: tuple[Path, ...] = option((), "A folder with records.jsonl, as arr-coc pages writes it; may be repeated.")
    source: tuple[str, ...] = option((), "Only these sources of the records; may be repeated.")
    screens: Path | None = option(None, "A folder of arr-coc pages --screens: its steps are seen one after the other.")
    many: int = option(0, "Instead: ask so many questions about --pictures, and tell the memory at every tenth.")
    megabytes: int = option(256, "For --many: what may be kept of the pictures.", least=0)
    pictures: int = option(10, "Pictures, those with most questions first.", least=1)
    questions: int = option(20, "Questions of each picture, at most.", least=1)
    keep: str = option("1/8", "Share of the full tokens.")
    way: tuple[str, ...] = option((), "Only these ways; may be repeated. [default: all]")
    seed: int = option(1, "Seed of the order of the questions.")
