"""A screen that an agent works at: step by step it scrolls, types, opens and closes dialogs, and reads what is there.

Drawn by Chromium with real scrolling and real keys. Every step is a picture and questions whose answers can be read on
it. The same seed gives the same steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing, write_text, writing

from .pages.drawing import browser

SIZE = (1024, 768)
ORDERS = 60
NAMES = ("Ada Moor", "Ben Hale", "Cleo Park", "Dan Frost", "Eve Stone", "Finn West", "Gil Marsh", "Hana Reed")
CITIES = ("Oslo", "Lima", "Turin", "Quito", "Perth", "Bergen", "Malmo", "Ghent")
WARNINGS = ("Disk is full", "No network", "Save failed", "Wrong key", "Printer is busy", "File is locked")
FIELDS = ("Name", "City", "Note")
PAGE = """<style>
*{box-sizing:border-box;font-family:'DejaVu Sans',sans-serif}body{margin:0;width:1024px;height:768px;background:#fff}
#top{height:48px;background:#234;color:#fff;font-size:20px;padding:11px 16px}
#menu{position:absolute;top:48px;bottom:32px;width:160px;background:#eef;font-size:16px;padding:12px;line-height:36px}
#list{position:absolute;top:48px;left:160px;width:544px;bottom:32px;overflow:hidden;font-size:17px}
#list div{height:38px;padding:9px 14px;border-bottom:1px solid #ccc;display:flex;justify-content:space-between}
#list .on{background:#fd8}#form{position:absolute;top:60px;left:720px;width:290px;font-size:16px}
#form input{width:280px;height:34px;font-size:17px;margin:4px 0 18px;padding:4px;caret-color:transparent;outline:none}
#bar{position:absolute;bottom:0;width:1024px;height:32px;background:#ddd;font-size:16px;padding:7px 14px}
#box{position:absolute;display:none;top:270px;left:300px;width:420px;height:170px;background:#fff;border:2px solid #444;
font-size:20px;padding:24px;box-shadow:0 0 12px #888}#box b{display:block;margin-bottom:36px}</style>
<div id=top>Orders of Northwind</div><div id=menu>Inbox<br>Orders<br>Stock<br>Staff<br>Help</div><div id=list></div>
<div id=form></div><div id=bar>Ready</div><div id=box><b></b><button>OK</button></div>"""

SELECT = """([n, text]) => {
  [...list.children].forEach((e, i) => e.className = i == n ? 'on' : ''); bar.innerText = text}"""
SHOW = "text => {box.style.display = text ? 'block' : 'none'; box.querySelector('b').innerText = text}"


class LoopStep(NamedTuple):
    """png: the screen after the action. asked: questions and their answers."""

    action: str
    png: bytes
    asked: list[tuple[str, str]]


class LoopScreen:
    """The screen in a tab of a browser, and what stands on it."""

    def __init__(self, tab: Any, rng: np.random.Generator) -> None:
        self.tab, self.rng = tab, rng
        self.typed = dict.fromkeys(FIELDS, "")
        self.dialog, self.bar, self.top = "", "Ready", 0
        self.amounts = [f"{rng.integers(10, 990)}.{rng.integers(0, 100):02d}" for _ in range(ORDERS)]
        tab.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
        tab.set_content(PAGE, wait_until="load")
        row = "<div><span>Order {}</span><span>{}</span></div>"
        rows = "".join(row.format(100 + number, amount) for number, amount in enumerate(self.amounts))
        inputs = "".join(f"<label>{name}<br><input id={name}></label><br>" for name in FIELDS)
        tab.evaluate("([a, b]) => {list.innerHTML = a; form.innerHTML = b}", [rows, inputs])

    def act(self) -> str:
        """One step, drawn by lot; what it was."""
        closing = self.dialog and self.rng.random() < 0.6
        kind = "close" if closing else str(self.rng.choice(("type", "type", "scroll", "select", "open", "wait")))
        if kind == "open" and self.dialog:
            kind = "close"
        getattr(self, f"_{kind}")()
        return kind

    def _wait(self) -> None:
        """Nothing happens, as while something loads."""

    def _type(self) -> None:
        name = str(self.rng.choice(FIELDS))
        words = {"Name": NAMES, "City": CITIES, "Note": WARNINGS}[name]
        if len(self.typed[name]) > 8:
            self.tab.fill(f"#{name}", "")
            self.typed[name] = ""
        more = str(self.rng.choice(words)) if not self.typed[name] else " " + str(self.rng.integers(10, 99))
        self.tab.evaluate("name => document.getElementById(name).focus()", name)
        self.tab.keyboard.press("End")
        self.tab.keyboard.type(more)
        self.typed[name] += more

    def _scroll(self) -> None:
        most = ORDERS * 38 - (SIZE[1] - 80)
        self.top = int(np.clip(self.top + self.rng.choice((-114, 76, 114, 190)), 0, most))
        self.tab.evaluate("top => list.scrollTop = top", self.top)

    def _select(self) -> None:
        row = self.top // 38 + int(self.rng.integers(1, 15))
        self.bar = f"Selected order {100 + row}"
        self.tab.evaluate(SELECT, [row, self.bar])

    def _open(self) -> None:
        self.dialog = str(self.rng.choice(WARNINGS))
        self._show()

    def _close(self) -> None:
        self.dialog = ""
        self._show()

    def _show(self) -> None:
        self.tab.evaluate(SHOW, self.dialog)

    def asked(self) -> list[tuple[str, str]]:
        """What can be read now."""
        found = [(f"What is entered under {name}?", text) for name, text in self.typed.items() if text]
        found.append(("What does the bar at the bottom say?", self.bar))
        if self.dialog:
            found.append(("What does the dialog say?", self.dialog))
        else:
            row = -(-self.top // 38) + int(self.rng.integers(0, 17))
            found.append((f"What is the amount of Order {100 + row}?", self.amounts[row]))
        return found


def loop_steps(number: int, seed: int) -> Iterator[LoopStep]:
    """So many steps of one screen."""
    with browser() as running:
        screen = LoopScreen(running.new_page(), np.random.default_rng(seed))
        for _ in range(number):
            action = screen.act()
            yield LoopStep(action, screen.tab.screenshot(), screen.asked())


def write_loop(number: int, seed: int, folder: Path) -> int:
    """img/*.png and records.jsonl of a loop; how many questions."""
    if number < 1:
        raise InputError(f"--n {number} draws nothing; give at least 1")
    lines = []
    with writing(folder):
        (folder / "img").mkdir(parents=True, exist_ok=True)
        for place, step in enumerate(loop_steps(number, seed)):
            image = f"img/screen-{seed}-{place:04d}.png"
            with replacing(folder / image) as made:
                made.write_bytes(step.png)
            for query, answer in step.asked:
                row = {"image": image, "query": query, "answer": answer, "source": "screens", "step": place}
                lines.append(json.dumps({**row, "action": step.action, "boxes": []}))
        write_text(folder / "records.jsonl", "\n".join(lines) + "\n")
    return len(lines)
