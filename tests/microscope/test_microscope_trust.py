"""What a visitor brings: pages of a PDF, a picture that survives a reload, a budget that is this picture's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from microscope_visits import png
from PIL import Image
from small_pdf import small_pdf

from arr_coc.app.microscope import ask_tab
from arr_coc.app.microscope import desk as desks
from arr_coc.app.microscope.document_tab import show_document
from arr_coc.app.microscope.kit import tokens_of
from arr_coc.app.microscope.linking import PageState, read_link
from arr_coc.app.microscope.page import footer_words
from arr_coc.app.microscope.pdf_pages import drawn_page, still_there, thumbnails
from arr_coc.core.errors import InputError
from arr_coc.core.values import Answer

TEXT = "72 700 Td ({}) Tj"


def brought(desk: Any, name: str, data: bytes = b"") -> Path:
    path = desk.folder / "visitor" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_pdf_is_shown_page_by_page_and_one_becomes_the_picture(desk: Any) -> None:
    pytest.importorskip("pypdfium2")
    path = brought(desk, "report.pdf")
    small_pdf(path, tuple((TEXT.format(f"page {n}"), "") for n in (1, 2, 3)))
    found = thumbnails(desk, str(path))
    assert [told for _, told in found] == ["page 1", "page 2", "page 3"]
    assert all(Path(file).is_relative_to(desk.folder) for file, _ in found)
    drawn = drawn_page(desk, str(path), 2)
    with Image.open(drawn) as image, Image.open(found[1][0]) as thumb:
        assert image.height > 3 * thumb.height
    assert desk.prepared(drawn).picture.size == (image.height, image.width)


def test_all_pages_of_a_pdf_share_one_budget_on_the_page(desk: Any) -> None:
    pytest.importorskip("pypdfium2")
    path = brought(desk, "report.pdf")
    small_pdf(path, tuple((TEXT.format(f"Total of {n}: {n}0.50"), "") for n in range(1, 6)))
    state = PageState(tab="document", picture="upload", q="What is the total of 4?", all=60)
    shown = show_document(desk, str(path), state)
    assert shown.kept.allocation.tokens == shown.document()["tokens"] == 60
    assert shown.kept.allocation.ranked[0].number == 4
    assert "All pages" in shown.html
    assert "Page 4: " in shown.html
    assert shown.picture().width == 1280
    assert read_link(dict(parse_qsl(shown.link)))[0].all == 60
    folder = path.parent
    names: dict[str, Any] = {}
    exec(shown.lines.replace("'report.pdf'", repr(str(path))).replace("document.png", f"{folder}/document.png"), names)
    assert names["look"].allocation == shown.kept.allocation
    small_pdf(folder / "one.pdf", ((TEXT.format("Total 3"), ""),))
    for given, said in ((None, "no PDF yet"), (brought(desk, "a.png", b"PNG"), "is no PDF"),
                        (folder / "one.pdf", "has one page")):  # fmt: skip
        with pytest.raises(InputError, match=said):
            show_document(desk, given and str(given), state)


def test_what_is_no_pdf_gets_a_clear_word(desk: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"letter\.docx is no PDF; this page opens pictures"):
        thumbnails(desk, str(brought(desk, "letter.docx", b"PK")))
    small_pdf(tmp_path / "other.pdf")
    with pytest.raises(InputError, match="does not belong"):
        thumbnails(desk, str(tmp_path / "other.pdf"))


def test_a_count_that_was_another_pictures_is_not_spent(desk: Any) -> None:
    """25 % was shown and 13.3 % was spent: the tokens of the picture before."""
    small, large = brought(desk, "small.png", png(128, 128)), brought(desk, "large.png", png(512, 1024))
    for path, full in ((small, 16), (large, 512)):
        assert tokens_of([str(path), None, "q", None, 25, "mini", 1], desk) == full // 4
        assert tokens_of([str(path), None, "q", 7, 25, "mini", 1], desk) == 7
    with pytest.raises(InputError, match="whole number"):
        tokens_of([None, None, "q", None, 25, "mini", 1], desk)


def test_a_visitors_own_picture_is_found_again(desk: Any, tmp_path: Path) -> None:
    path = brought(desk, "own.png", png(64, 64))
    assert still_there(desk, str(path)) == str(path.resolve())
    (tmp_path / "else.png").write_bytes(png(64, 64))
    for other in (str(tmp_path / "else.png"), str(path) + ".gone", "", None, 5, str(desk.folder)):
        assert still_there(desk, other) is None


def test_the_memory_of_a_large_picture_is_given_back(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr(desks, "give_back", lambda: given.append(True))
    monkeypatch.setattr(desks, "LARGEST_SIDE", 256)
    desk.prepared(str(brought(desk, "mass.png", png(200, 200))))
    assert not given
    desk.prepared(str(brought(desk, "mass2.png", png(300, 600))))
    assert given
    monkeypatch.undo()
    desks.give_back()


def test_all_tokens_of_a_large_picture_are_not_tried_unasked(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They held 2 GB after the answer was long there."""
    path, state = brought(desk, "page.png", png(128, 256)), PageState("ask", "upload", "What is this?", 25.0, "mini", 1)
    answer = Answer("nothing", 0.5, full=32)
    assert "encode what is looked at" in ask_tab.show_full(desk, str(path), state, answer)
    monkeypatch.setattr(ask_tab, "MOST_FULL", 31)
    monkeypatch.setattr(desk, "eye", lambda model: pytest.fail("the model was asked"))
    assert "All 32 tokens are not tried" in ask_tab.show_full(desk, str(path), state, answer)


def test_who_found_the_relevance_is_told_in_plain_words(desk: Any) -> None:
    path, state = (
        brought(desk, "words.png", png(128, 256)),
        PageState("ask", "upload", "What is this?", 25.0, "mini", 1),
    )
    said = ask_tab.show_answer(desk, str(path), state, 8).html
    assert "relevance &#x27;scorer&#x27;" in said
    assert "function" not in said


def test_the_footer_tells_one_limit_in_plain_words(desk: Any) -> None:
    words = footer_words(desk)
    assert "120 megapixels" in words
    assert "MB" not in words
    assert "removed an hour" in words


# ---- in a browser ---------------------------------------------------------------------------------------------------


def test_a_reload_keeps_the_picture_and_keys_do_what_the_footer_says(page: Any, server: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_bytes(png(320, 480))
    page.goto(server.address)
    page.locator("#answer").wait_for()
    page.set_input_files("#picture input[type=file]", str(tmp_path / "mine.png"))
    page.wait_for_function("document.querySelector('#readout')?.textContent.includes('150 tokens')")
    page.locator("#question textarea, #question input").first.fill("What is this?")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("document.querySelector('#view-ask')?.textContent.includes('of 150 tokens')")
    page.wait_for_function("location.search.includes('picture=upload')")
    page.reload()
    page.wait_for_function("document.querySelector('#readout')?.textContent.includes('150 tokens')")
    assert "drop that picture here" not in page.locator("body").inner_text()
    page.locator("#header h1").click()
    page.keyboard.press("4")
    page.wait_for_function("document.querySelector('#tab-compare-button')?.getAttribute('aria-selected') === 'true'")
    page.keyboard.press("/")
    assert page.evaluate("Boolean(document.activeElement.closest('#question'))")
    # Who leaves a page while it listens breaks off what it hears.
    left = ("AbortError", "Connection errored out")
    page.troubles[:] = [one for one in page.troubles if not any(word in one for word in left)]


def test_a_pdf_is_opened_in_the_page(page: Any, server: Any, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    small_pdf(tmp_path / "two.pdf", tuple((TEXT.format(f"page {n}"), "") for n in (1, 2)))
    page.goto(server.address)
    page.locator("#answer").wait_for()
    page.locator("#pdf button").first.click()
    page.set_input_files("#pdf-file input[type=file]", str(tmp_path / "two.pdf"))
    thumbs = page.locator("#pdf-pages img")
    thumbs.nth(1).wait_for()
    assert thumbs.count() == 2
    before = page.locator("#readout").inner_text()
    thumbs.nth(1).click()
    page.wait_for_function("(before) => document.querySelector('#readout')?.textContent !== before", arg=before)
    page.wait_for_function("document.querySelector('#picture img').src.includes('two-2.png')")
