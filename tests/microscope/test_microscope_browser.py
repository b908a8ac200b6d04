"""End to end in headless Chromium: ask, drag, compare, watch, and read it off the page.

Skipped, saying so, where there is no browser; `make test-browser` installs one where it can.
"""

from __future__ import annotations

import os
import re

import pytest
from microscope_visits import PATIENCE, png
from PIL import Image
from small_pdf import small_pdf

from arr_coc.app.microscope.desk import FIRST_PICTURE, FIRST_QUERY

thorough = pytest.mark.skipif(
    os.environ.get("ARR_COC_BROWSER") != "all", reason="takes a minute or two: make test-browser runs it"
)


def look_at_the_form(page, server, query: str, tab: str = "Ask") -> None:
    """Open the page and set another picture and question than its own."""
    page.goto(server.address)
    page.locator("#answer").wait_for()
    page.click("#example-form")
    page.wait_for_function("document.querySelector('#picture img').src.includes('form.png')")
    page.get_by_text("Done in").wait_for()
    page.fill("#question textarea", query)
    if tab != "Ask":
        page.get_by_role("tab", name=tab).click()


def ask_aloud(page, query: str) -> str:
    """Ask on the open page and read the answer off it."""
    page.evaluate("document.querySelectorAll('#answer').forEach((one) => one.removeAttribute('id'))")
    page.fill("#question textarea", query)
    page.keyboard.press("Enter")
    return page.locator("#answer").inner_text()


def test_ask_and_read_the_answer(page, server, outgoing):
    page.goto(server.address)
    first = page.locator("#answer").inner_text()
    eye = server.desk.eye("mini").set_image(server.desk.example(FIRST_PICTURE))
    assert first == (eye.ask(FIRST_QUERY, 192).text or "(nothing)")

    query = "What does the gray sign say?"
    alone = eye.ask(query, 192)
    assert ask_aloud(page, query) == (alone.text or "(nothing)")
    assert f"{alone.uncertainty:.2f}" in page.locator("#view-ask .card").inner_text()
    page.get_by_text("Done in").wait_for()

    assert not outgoing


def test_a_tension_that_is_moved_asks_again_and_an_answer_sets_it_back(page, server):
    look_at_the_form(page, server, "What is the date?")
    allocation, value = page.locator("#view-ask figure img").first, "#tension-compress_particularize input[type=number]"
    before = allocation.get_attribute("src")
    assert page.input_value(value) == "0.6", "the slider stands where the decision stood"
    slider = page.locator("#tension-compress_particularize input[type=range]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.02 * box["width"], box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    page.wait_for_function("(before) => document.querySelector('#view-ask figure img')?.src !== before", arg=before)
    page.wait_for_function(f"document.querySelector('{value}').value < 0.3")
    assert "Who decided" in page.locator("#view-ask").inner_text()
    page.wait_for_function("!document.body.classList.contains('busy')")
    page.click("#go")
    page.wait_for_function(f"document.querySelector('{value}').value === '0.6'")


@thorough
def test_passes_are_shown_side_by_side(page, server):
    look_at_the_form(page, server, "What is the name of the sleeping dog?")
    page.fill("#passes input[type=number]", "2")
    page.click("#go")
    page.locator("#view-ask .pass").first.wait_for()
    assert "tokens" in page.locator("#view-ask .spent").inner_text()


def test_compare_strategies_and_questions(page, server):
    look_at_the_form(page, server, "the red star", "Compare")
    page.get_by_text("Right: uniform, the red star", exact=True).wait_for()
    page.fill("#other-question :is(textarea, input)", "the blue square at the bottom")
    page.keyboard.press("Enter")
    page.get_by_text("Right: uniform, the blue square at the bottom", exact=True).wait_for()
    assert "tokens moved" in page.locator("#view-compare .beside").inner_text()


def test_a_clip_is_watched_frame_by_frame(page, server, tmp_path):
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'arr-coc[video]'")
    from arr_coc.video.decode import write_clip
    from arr_coc_lab.worlds.needle.clips import render_clip

    drawn = render_clip("cards", range(1), 20, (384, 384), 0, "test", cuts=1)
    write_clip(tmp_path / "clip.mp4", drawn.pictures[0].permute(0, 2, 3, 1).numpy(), 6.0)
    page.goto(server.address)
    page.locator("#answer").wait_for()
    page.get_by_role("tab", name="Clips").click()
    page.set_input_files("#clip input[type=file]", str(tmp_path / "clip.mp4"))
    page.get_by_text("clip.mp4").wait_for()
    page.fill("#clip-question textarea", drawn.questions[0])
    page.click("#watch")
    page.get_by_text("frame 1 of 20").wait_for()
    assert page.evaluate("new Promise((done) => { const film = document.querySelector('video'); if (film.readyState)"
                         " done(film.duration); film.onloadedmetadata = () => done(film.duration); })") > 1  # fmt: skip
    page.focus("#scrubber input[type=range]")
    page.keyboard.press("ArrowRight")
    page.get_by_text("frame 2 of 20").wait_for()
    assert page.locator("#view-clips figure").count() == 3
    assert not page.locator("#sidebar").is_visible()


@thorough
@pytest.mark.parametrize("way", ["chosen", "dropped"])
def test_a_pdf_is_asked_about_as_a_whole_and_a_reload_keeps_it(page, server, tmp_path, way):
    pytest.importorskip("pypdfium2")
    small_pdf(tmp_path / "two.pdf", tuple((f"72 700 Td (Total of {n}: {n}0) Tj", "") for n in (1, 2)))
    page.goto(server.address)
    page.locator("#answer").wait_for()
    if way == "chosen":
        page.locator("#pdf button").first.click()
        page.set_input_files("#pdf-file input[type=file]", str(tmp_path / "two.pdf"))
    else:
        held = page.evaluate_handle(
            "(data) => { const held = new DataTransfer();"
            " held.items.add(new File([new Uint8Array(data)], 'two.pdf', {type: 'application/pdf'})); return held; }",
            list((tmp_path / "two.pdf").read_bytes()),
        )
        page.dispatch_event("#picture img", "drop", {"dataTransfer": held})
    page.wait_for_function("document.querySelector('#picture img').src.includes('two.pdf.png')")
    page.fill("#question textarea", "What is the total?")
    page.click("#go")
    page.get_by_text("All pages").wait_for()
    page.get_by_text("Done in").wait_for()
    page.reload()
    page.get_by_text("All pages").wait_for()
    assert "two.pdf.png" in page.locator("#picture img").get_attribute("src")
    assert page.locator("#question textarea").input_value() == "What is the total?"


@thorough
def test_what_goes_wrong_is_a_sentence(page, server, tmp_path):
    page.goto(server.address)
    page.locator("#answer").wait_for()
    page.fill("#question textarea", "   ")
    page.click("#go")
    assert "the question is empty" in page.locator("#view-ask [role=alert]").inner_text()
    bomb = tmp_path / "bomb.png"
    Image.new("1", (12000, 12000)).save(bomb)
    page.click("#picture button[aria-label='Remove Image']")
    page.set_input_files("#picture input[type=file]", str(bomb))
    ask_in_vain(page)
    page.get_by_text("more than 120 megapixels; resize it first").wait_for()
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not a picture at all")
    page.click("#picture button[aria-label='Remove Image']")
    page.set_input_files("#picture input[type=file]", str(broken))
    ask_in_vain(page)
    page.locator("#view-ask [role=alert]").get_by_text(re.compile("broken.png")).wait_for()


def ask_in_vain(page) -> None:
    page.locator("#picture img").wait_for()
    page.fill("#question textarea", "What is it?")
    page.click("#go")


@thorough
def test_visitors_do_not_see_each_other_and_keys_work(page, browser, server, tmp_path):
    (tmp_path / "mine.png").write_bytes(png(96, 64))
    look_at_the_form(page, server, "mine", "Compare")
    page.locator("#view-compare figure").first.wait_for()
    page.click("#picture button[aria-label='Remove Image']")
    page.set_input_files("#picture input[type=file]", str(tmp_path / "mine.png"))
    page.locator("#view-compare figure").first.wait_for()
    with browser.new_context() as context:
        other = context.new_page()
        other.set_default_timeout(PATIENCE)
        look_at_the_form(other, server, "the other", "Compare")
        other.locator("#view-compare figure").first.wait_for()
        assert "mine.png" not in other.content()
    page.locator("#header h1").click()
    page.keyboard.press("3")
    page.wait_for_function("document.querySelector('#tab-clips-button')?.getAttribute('aria-selected') === 'true'")
    page.keyboard.press("1")
    page.keyboard.press("/")
    page.wait_for_function("Boolean(document.activeElement.closest('#question'))")


@thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_on_a_telephone_in_light_and_dark(browser, server, scheme):
    with browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(server.address)
        box = page.locator("#answer").bounding_box()
        assert 0 <= box["y"] < box["y"] + box["height"] <= 844
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        ground, ink = (
            page.evaluate(f"getComputedStyle(document.querySelector('{one}')).{what}").strip()
            for one, what in (("body", "backgroundColor"), ("#answer", "color"))
        )
        assert contrast(ground, ink) >= 4.5


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
