"""Files that never end: opened in a helper that is killed, beside which everything else goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE, empty_scans, nested_forms
from PIL import Image
from small_pdf import small_pdf

import arr_coc
from arr_coc.core.errors import InputError, Stopped, stopping
from arr_coc.pictures import opening
from arr_coc.pictures.document import Document
from arr_coc.pictures.load import load_picture

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited, and looked up, as Linux does it")
STREET = Path(arr_coc.__file__).parent / "examples" / "street.png"
SCANS = empty_scans(number=20_000)


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Helpers, which have a second for a file."""
    monkeypatch.setattr(opening, "SECONDS", 1)
    monkeypatch.setattr(opening, "_helpers", opening.Helpers())
    with opening.isolated():
        yield


def children() -> list[int]:
    path = Path(f"/proc/self/task/{threading.main_thread().native_id}/children")
    return [int(pid) for pid in path.read_text().split()]


def read_all(data: bytes) -> Any:
    """Everything that is done to a file."""
    if not data.startswith(b"%PDF"):
        return load_picture(data, max_pixels=20_000_000)
    return [(page.words, page.draw()) for page in Document.of(data)]


@pytest.mark.parametrize("name", HOSTILE)
def test_each_is_read_or_given_up(isolated: None, name: str) -> None:
    data, started = HOSTILE[name](), time.perf_counter()
    with suppress(InputError):
        read_all(data)
    assert time.perf_counter() - started < 2 * opening.CLOCK


def test_a_helper_reads_what_this_process_reads(isolated: None, tmp_path: Path) -> None:
    data = Image.Exif()
    data[0x0112] = 6
    Image.open(STREET).convert("RGB").save(tmp_path / "side.jpg", exif=data)
    Image.open(STREET).convert("RGBA").save(tmp_path / "clear.png")
    report = small_pdf(
        tmp_path / "report.pdf", (("72 700 Td (one Total) Tj", ""), ("72 700 Td (two) Tj", "/Rotate 90"))
    )
    sources = [tmp_path / "side.jpg", tmp_path / "clear.png", (tmp_path / "side.jpg").read_bytes()]

    def everything() -> list[Any]:
        pictures = [load_picture(source, longest_side=side) for source in sources for side in (None, 200)]
        books = [Document.of(source) for source in (report, report.read_bytes())]
        pictures += [page.draw(side) for book in books for page in book for side in (None, 90)]
        words = [word for book in books for page in book for word in (*page.words.texts, page.words.boxes.tolist())]
        facts = [(one.name, one.size, one.notes, one.pixels.tobytes()) for one in pictures]
        return [facts, words, [book.texts for book in books], [page.size for book in books for page in book]]

    apart = everything()
    assert opening._helpers.idle, "nothing was read apart"
    opening._users, users = 0, opening._users
    try:
        assert apart == everything()
    finally:
        opening._users = users


def test_others_go_on_and_what_is_called_off_ends(isolated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "SECONDS", 60)
    left, stuck = threading.Event(), []

    def read() -> None:
        with stopping(left.is_set), pytest.raises(Stopped):
            load_picture(SCANS)
        stuck.append("ended")

    reader = threading.Thread(target=read)
    reader.start()
    while not any(helper.gives_way for helper in opening._helpers.busy):
        time.sleep(0.02)
    helper = next(iter(opening._helpers.busy))
    assert os.getpriority(os.PRIO_PROCESS, helper.process.pid) >= opening.NICE
    assert load_picture(STREET).size == (768, 1024)
    assert not stuck
    left.set()
    reader.join(10)
    assert stuck
    assert helper.process.pid not in children(), "its memory is not back"


def test_slow_files_take_turns(isolated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "SECONDS", 60)
    left, seen = threading.Event(), list[set[int]]()

    def read() -> None:
        with stopping(left.is_set), pytest.raises(Stopped):
            load_picture(SCANS)

    readers = [threading.Thread(target=read) for _ in range(opening.TOGETHER + 2)]
    [reader.start() for reader in readers]
    while len(pids := [one.process.pid for one in opening._helpers.slow]) < len(readers):
        time.sleep(0.02)
    while len(seen) < 20 * len(pids):
        time.sleep(opening.TURN / 4)
        states = {pid: Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[1][0] for pid in pids}
        seen.append({pid for pid, state in states.items() if state != "T"})
    left.set()
    [reader.join(10) for reader in readers]
    assert set.union(*seen) == set(pids), "one never had its turn"
    assert sum(map(len, seen)) / len(seen) < opening.TOGETHER + 1


def test_a_file_that_breaks_its_reader_is_not_read_for_ever(isolated: None) -> None:
    for _ in range(opening.STRIKES):
        with pytest.raises(InputError, match="more than 1 s"):
            load_picture(SCANS)
    started = time.perf_counter()
    with pytest.raises(InputError, match=f"{opening.STRIKES} times"):
        load_picture(SCANS)
    assert time.perf_counter() - started < 0.5


def test_a_file_that_never_says_anything_is_given_up(isolated: None, tmp_path: Path, monkeypatch: Any) -> None:
    """Nobody writes into it: reading it waits, and uses no processor."""
    monkeypatch.setattr(opening, "CLOCK", 1)
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(InputError, match="took more than"):
        load_picture(tmp_path / "pipe.png")


def test_one_page_that_breaks_its_reader_leaves_the_others(isolated: None, tmp_path: Path) -> None:
    """Its text is unknown; the text of the others is found in spite of it."""
    data = nested_forms().replace(b"/Kids[3 0 R]/Count 1", b"/Kids[3 0 R 3 0 R]/Count 2")
    assert len(Document.of(data)) == 2
    (tmp_path / "hostile.pdf").write_bytes(data)
    report = small_pdf(tmp_path / "report.pdf", (("72 700 Td (total) Tj", ""),))
    book = Document.of([tmp_path / "hostile.pdf", report])
    assert [text.strip() for text in book.texts] == ["", "", "total"]


def test_helpers_end_with_their_owner_and_when_nobody_asks(isolated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os; from arr_coc.pictures import opening; opening.isolate(); "
    code += "print(opening._helpers.idle[0].process.pid, flush=True); os.kill(os.getpid(), 9)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not said.stderr
    end = time.monotonic() + 20
    while Path(f"/proc/{said.stdout.strip()}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    monkeypatch.setattr(opening, "IDLE", 0.2)
    monkeypatch.setattr(opening, "_helpers", opening.Helpers())
    assert load_picture(STREET).size == (768, 1024)
    opening._helpers.idle[0].process.wait(20)
    assert load_picture(STREET).size == (768, 1024), "one that has ended is replaced"


def test_a_fork_leaves_the_helpers_of_its_parent_alone(isolated: None) -> None:
    load_picture(STREET)
    pid = os.fork()
    if not pid:
        os._exit(0 if load_picture(STREET).size == (768, 1024) and not opening._helpers.busy else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert load_picture(STREET).size == (768, 1024)
