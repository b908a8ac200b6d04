"""End to end in headless Chromium: ask, drag, compare, export, and read it off the page.

Skipped, saying so, where there is no browser; `make test-browser` installs one where it can.
"""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from time import perf_counter, sleep
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np
import pytest
from microscope_visits import PATIENCE
from PIL import Image

from arr_coc.app.microscope import ask_tab
from arr_coc.app.microscope.linking import FIRST_QUERY, FIRST_SOURCE, PageState, read_link
from arr_coc.core.values import Allocation

CARD = "needle:cards:1"
thorough = pytest.mark.skipif(
    os.environ.get("ARR_COC_BROWSER") != "all", reason="takes a minute or two: make test-browser runs it"
)


def link(**settings) -> str:
    return "?" + urlencode(settings)


def ask_aloud(page, query: str) -> str:
    """Ask on the open page and read the answer off it."""
    page.evaluate("document.querySelectorAll('#answer').forEach((one) => one.removeAttribute('id'))")
    page.fill("#question textarea", query)
    page.keyboard.press("Enter")
    return page.locator("#answer").inner_text()


def saved(page, selector: str) -> tuple[str, bytes]:
    with page.expect_download() as found:
        page.click(selector)
    with open(found.value.path(), "rb") as file:
        return found.value.suggested_filename, file.read()


def test_ask_export_and_come_back_by_link(page, server, outgoing):
    page.goto(server.address)
    first = page.locator("#answer").inner_text()
    eye = server.desk.eye("mini").set_image(str(server.desk.source(FIRST_SOURCE).path))
    assert first == (eye.ask(FIRST_QUERY, 192).text or "(nothing)")
    page.locator("#below-ask table").wait_for()
    assert "768" in page.locator("#below-ask table").inner_text()

    query = "What does the gray sign say?"
    alone = eye.ask(query, 192)
    assert ask_aloud(page, query) == (alone.text or "(nothing)")
    assert f"{alone.uncertainty:.2f}" in page.locator("#view-ask .card").inner_text()

    page.locator("#below-ask table").wait_for()  # a page that is left while it waits complains
    name, data = saved(page, "#save-json-ask")
    assert name == "ask.json"
    assert Allocation.from_json(json.loads(data)) == alone.allocation
    _, data = saved(page, "#save-png-ask")
    assert Image.open(io.BytesIO(data)).width == 1280
    _, lines = saved(page, "#save-python-ask")
    assert query in lines.decode()

    page.click("#copy-link-ask")
    page.get_by_text("Link copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    state, complaints = read_link(dict(parse_qsl(urlsplit(copied).query)))
    assert (state.q, state.picture, complaints) == (query, FIRST_SOURCE, [])
    page.goto(copied)
    assert page.locator("#answer").inner_text() == (alone.text or "(nothing)")
    page.locator("#below-ask table").wait_for()
    assert not outgoing


def test_a_slider_moves_the_map(page, server):
    page.goto(server.address + link(tab="ways", picture=CARD, q="the red star", compress="0.5"))
    image = page.locator("#view-ways figure img").first
    before = image.get_attribute("src")
    slider = page.locator("#tension-compress input[type=range]")
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.98, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    page.wait_for_function("(before) => document.querySelector('#view-ways figure img').src !== before", arg=before)
    page.wait_for_function("() => new URL(location.href).searchParams.get('compress') > 0.9")
    assert page.locator("#ways-three figure").count() == 3
    moved = dict(parse_qsl(urlsplit(page.url).query))
    _, data = saved(page, "#save-json-ways")
    document = json.loads(data)
    assert document["tensions"]["compress_particularize"] == pytest.approx(float(moved["compress"]))


@thorough
def test_compare_strategies_and_questions(page, server):
    page.goto(server.address + link(tab="compare", picture=CARD, q="the red star", second="random"))
    page.get_by_text("Right: random").wait_for()
    page.locator("#by").get_by_text("questions").click()
    page.get_by_text("the second question is empty").wait_for()
    page.fill("#other-question :is(textarea, input)", "the blue square at the bottom")
    page.keyboard.press("Enter")
    page.get_by_text("Right: the blue square at the bottom").wait_for()
    _, data = saved(page, "#save-json-compare")
    document = json.loads(data)
    first, second = (Allocation.from_json(document[side]) for side in ("first", "second"))
    assert first.tokens == second.tokens
    assert f"{document['comparison']['similarity']:.2f}" in page.locator("#view-compare table").inner_text()


@thorough
def test_textures_and_passes(page, server):
    page.goto(server.address + link(tab="textures", picture=CARD, layout="full40", level=2))
    page.locator("#view-textures .small figure").nth(39).wait_for()
    names = page.locator("#view-textures .small figcaption").all_inner_texts()
    assert len(names) == 40
    assert "text_regions" in names
    page.get_by_role("tab", name="Passes").click()
    page.click("#go")
    page.locator("#view-passes .pass").nth(1).wait_for()
    assert "all passes counted" in page.locator("#view-passes").inner_text()


@thorough
def test_a_clip_is_watched_frame_by_frame(page, server):
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'arr-coc[video]'")
    page.goto(server.address + link(tab="video"))
    page.click("#draw-clip")
    page.wait_for_function("() => document.querySelector('#clip-question textarea').value.length > 3")
    page.click("#watch")
    page.locator("#view-video svg").wait_for()
    assert page.evaluate("new Promise((done) => { const film = document.querySelector('video'); if (film.readyState)"
                         " done(film.duration); film.onloadedmetadata = () => done(film.duration); })") > 1  # fmt: skip
    page.get_by_text("frame 1 of 20").wait_for()
    page.focus("#scrubber input[type=range]")
    page.keyboard.press("ArrowRight")
    page.get_by_text("frame 2 of 20").wait_for()
    assert "cut" in page.locator("#view-video svg").text_content()


@thorough
def test_what_goes_wrong_is_a_sentence(page, server, tmp_path):
    page.goto(server.address + link(tab="ways", picture=CARD, q="x", level=99))
    page.get_by_text("The link's level='99' is left out").wait_for()
    page.locator("#view-ways figure").first.wait_for()
    page.get_by_role("tab", name="Ask").click()
    page.fill("#question textarea", "   ")
    page.click("#go")
    assert "the question is empty" in page.locator("#view-ask [role=alert]").inner_text()
    page.click("#save-png-ask")
    assert "nothing to export" in page.locator("#trouble-ask [role=alert]").inner_text()
    bomb = tmp_path / "bomb.png"
    Image.new("1", (12000, 12000)).save(bomb)
    page.click("#picture button[aria-label='Remove Image']")
    page.set_input_files("#picture input[type=file]", str(bomb))
    page.get_by_text("more than 120 megapixels; resize it first").wait_for()
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not a picture at all")
    page.click("#picture button[aria-label='Remove Image']")
    page.set_input_files("#picture input[type=file]", str(broken))
    page.locator("#readout [role=alert]").get_by_text(re.compile("broken.png")).wait_for()


@thorough
def test_it_shows_that_it_works_can_be_called_off_and_remembers(page, server, monkeypatch):
    quick = ask_tab.tell_answer

    def slow(*asked):
        for _ in range(40):
            sleep(0.25)
            yield "<p>thinking</p>"
        return (yield from quick(*asked))

    page.goto(server.address)
    page.locator("#below-ask table").wait_for()
    assert re.fullmatch(r"Done in \d+\.\d s", page.locator("#working").inner_text())
    assert not page.locator("#cancel").is_visible()
    page.fill("#question textarea", "What does the gray sign say?")
    monkeypatch.setattr(ask_tab, "tell_answer", slow)
    page.click("#go")
    page.get_by_text("thinking").wait_for()
    page.click("#cancel")
    page.get_by_text("Cancelled after").wait_for()
    assert not page.locator("#cancel").is_visible()
    monkeypatch.undo()
    page.fill("#question textarea", "What is on the brown sign?")
    page.click("#go")
    page.get_by_text("Asking…").wait_for()
    assert page.locator("#cancel").is_visible()
    page.get_by_text("Done in").wait_for()
    page.locator("#asked").get_by_text("What is on the brown sign? →").wait_for()
    told = page.locator("#asked .gallery-item").all_inner_texts()
    assert not any("gray" in one for one in told), "what was called off is not remembered"
    page.locator("#below-ask table").wait_for()
    page.locator("#asked").get_by_text(FIRST_QUERY).click()
    page.wait_for_function("(query) => document.querySelector('#question textarea').value === query", arg=FIRST_QUERY)
    page.get_by_text("Done in").wait_for()
    page.locator("#below-ask table").wait_for()


@thorough
def test_on_a_telephone_the_answer_is_in_sight(browser, server):
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(server.address)
        for _ in range(2):  # as it opens, and after a question
            page.locator("#answer").wait_for()
            page.locator("#below-ask table").wait_for()
            box = page.locator("#answer").bounding_box()
            assert 0 <= box["y"] < box["y"] + box["height"] <= 844
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            page.fill("#question textarea", "What is on the brown sign?")
            page.click("#go")
            page.get_by_text("Done in").wait_for()


@thorough
def test_visitors_do_not_see_each_other(page, browser, server, tmp_path):
    pixels = np.random.default_rng(5).integers(0, 255, (64, 96, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "mine.png")
    page.goto(server.address + link(tab="ways", picture="upload", q="mine"))
    page.get_by_text("drop that picture here").wait_for()
    page.set_input_files("#picture input[type=file]", str(tmp_path / "mine.png"))
    page.locator("#view-ways figure").first.wait_for()
    with browser.new_context() as context:
        other = context.new_page()
        other.goto(server.address + link(tab="ways", picture=CARD, q="the other"))
        other.locator("#view-ways figure").first.wait_for()
        assert "mine.png" not in other.content()
        _, data = saved(other, "#save-python-ways")
        assert "the other" in data.decode()
    _, data = saved(page, "#save-python-ways")
    assert "picture = 'mine.png'" in data.decode()


@thorough
def test_everything_is_reached_by_keyboard(page, server):
    page.goto(server.address + link(tab="ways", picture=CARD, q="the red star"))
    page.locator("#view-ways figure").first.wait_for()
    wanted = {"example-street", "question", "go", "share", "tokens", "tab-ways-button", "tension-compress"}
    wanted |= {"save-png-ways", "copy-link-ways"}
    seen = set()
    page.locator("body").click(position={"x": 3, "y": 3})
    for _ in range(80):
        page.keyboard.press("Tab")
        seen |= set(
            page.evaluate(
                "() => { const ids = []; for (let one = document.activeElement; one; one = one.parentElement)"
                " if (one.id) ids.push(one.id); return ids; }"
            )
        )
        if wanted <= seen:
            break
    assert wanted <= seen
    page.focus("#tab-ways-button")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#view-textures figure").first.wait_for()


FIRST_SECONDS, NEXT_SECONDS, SLIDER_SECONDS = 3.0, 1.0, 0.3
# What a slider's new map takes, from the key to the new picture in the page.
SLIDE = """() => new Promise((done) => {
  const slider = document.querySelector("#tension-compress input[type=range]");
  const view = document.querySelector("#view-ways");
  const before = view.querySelector("img").src;
  const start = performance.now();
  new MutationObserver((_, watcher) => {
    const image = view.querySelector("img");
    if (!image || image.src === before) return;
    watcher.disconnect();
    image.decode().then(() => done((performance.now() - start) / 1000));
  }).observe(view, {childList: true, subtree: true, attributes: true});
  slider.value = (Number(slider.value) + 0.07) % 1;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
})"""


@thorough
def test_answers_and_maps_come_quickly(page, server):
    """First answer, next answer, slider to map; the best of three, because others may use the machine too."""
    busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    first, following, sliding = [], [], []
    for query in ("What does the gray sign say?", "What is on the brown sign?", "Which words are on the cyan sign?"):
        started = perf_counter()
        page.goto(server.address, wait_until="commit")
        page.locator("#answer").wait_for()
        first.append(perf_counter() - started)
        page.locator("#below-ask table").wait_for()
        started = perf_counter()
        ask_aloud(page, query)
        following.append(perf_counter() - started)
        page.locator("#below-ask table").wait_for()
    page.goto(server.address + link(tab="ways", picture=CARD, q="the red star"))
    page.locator("#view-ways figure").first.wait_for()
    sliding += [page.evaluate(SLIDE) for _ in range(5)]
    found = {"first": min(first), "next": min(following), "slider": min(sliding)}
    print(found)
    kept = found["first"] <= FIRST_SECONDS and found["next"] <= NEXT_SECONDS and found["slider"] <= SLIDER_SECONDS
    if busy and not kept:
        pytest.skip(f"the machine is busy: {found}")
    assert kept, found


@thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_when_narrow_in_light_and_dark(browser, server, scheme):
    with browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        for tab in ("ways",):
            page.goto(server.address + link(**{**vars_of(PageState(tab=tab)), "picture": CARD}))
            page.locator(f"#view-{tab} :is(figure, svg, .sentence)").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            ground, ink = (
                page.evaluate(f"getComputedStyle(document.querySelector('{one}')).{what}").strip()
                for one, what in (("body", "backgroundColor"), (f"#view-{tab} *", "color"))
            )
            assert contrast(ground, ink) >= 4.5


def vars_of(state: PageState) -> dict[str, str]:
    return dict(parse_qsl(replace(state, q="the red star").link()))


def contrast(first: str, second: str) -> float:
    """Of two CSS colours, as the accessibility guidelines count it."""

    def lightness(colour: str) -> float:
        red, green, blue = (int(value) / 255 for value in re.findall(r"\d+", colour)[:3])
        linear = [
            value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in (red, green, blue)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((lightness(first), lightness(second)))
    return (lighter + 0.05) / (darker + 0.05)
