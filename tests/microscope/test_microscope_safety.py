"""Safety: each promise of the page is tried, from outside, against the real application."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from microscope_visits import Visit, png, request
from PIL import Image

from arr_coc.app.cli import main
from arr_coc.app.microscope.desk import SECRET, PageLimits
from arr_coc.app.microscope.kit import in_a_sentence, without_folders
from arr_coc.app.microscope.serving import USER, PageGuard, build_app
from arr_coc.app.web import check_exposure
from arr_coc.core.errors import InputError

PASSWORD = "correct horse"


def guard(application, host="127.0.0.1", password=None, limits=None):
    """The page behind another guard."""
    return PageGuard(application.application, host, password, application.desk, limits or PageLimits())


# ---- who may reach it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_other_machines_are_let_in_with_a_password_only(host):
    with pytest.raises(InputError, match="password"):
        check_exposure(host, None, *SECRET)
    with pytest.raises(InputError, match="at least 8"):
        check_exposure(host, "short", *SECRET)
    check_exposure(host, PASSWORD, *SECRET)
    for own in ("127.0.0.1", "127.0.0.9", "localhost", "::1"):
        check_exposure(own, None, *SECRET)


def test_nothing_is_served_without_the_password_it_needs(desk, capsys):
    before = threading.active_count()
    with pytest.raises(SystemExit) as ended:
        main(["microscope", "--bind", "0.0.0.0:0"])
    assert ended.value.code == 2
    assert "password" in capsys.readouterr().err
    assert threading.active_count() == before
    with pytest.raises(InputError, match="password"):
        build_app(desk, host="0.0.0.0")


def test_every_route_asks_for_the_password(application):
    guarded = guard(application, "0.0.0.0", PASSWORD)
    for path in ("/", "/config", "/gradio_api/info", "/assets/anything.js", "/gradio_api/file=/etc/hostname"):
        assert request(guarded, "GET", path).status_code == 401
        assert request(guarded, "GET", path, auth=(USER, "wrong horse")).status_code == 401
    assert request(guarded, "POST", "/gradio_api/upload").status_code == 401
    assert request(guarded, "GET", "/config", auth=(USER, PASSWORD)).status_code == 200


def test_pages_of_other_sites_cannot_ask_openly_or_in_disguise(application):
    """A form or a script may send text to any address without being asked; it says where it comes from."""
    join, evil = "/gradio_api/queue/join", {"origin": "http://evil.example"}
    assert request(application, "GET", "/config", host="evil.example").status_code == 403
    assert request(application, "GET", "/config", host="localhost:7860").status_code == 200
    assert request(application, "GET", "/config", headers=evil).status_code == 403
    assert request(application, "POST", join, headers=evil, json={}).status_code == 403
    files = {"files": ("a.png", png(8, 8))}
    assert request(application, "POST", "/gradio_api/upload", headers=evil, files=files).status_code == 403
    plain = {"content-type": "text/plain"}
    assert request(application, "POST", join, headers=plain, content=b"{}").status_code == 415
    assert request(application, "POST", join, content=b"{}").status_code == 415


# ---- what may be uploaded -------------------------------------------------------------------------------------------


def test_uploads_have_a_limit_told_or_not(application):
    guarded = guard(application, limits=PageLimits(upload=100_000))
    small = request(guarded, "POST", "/gradio_api/upload", files={"files": ("a.png", png(64, 64))})
    assert small.status_code == 200
    large = request(guarded, "POST", "/gradio_api/upload", files={"files": ("a.png", bytes(200_000))})
    assert large.status_code == 413
    assert "smaller" in large.json()["detail"]

    async def untold():
        yield bytes(50_000)

    assert request(guarded, "POST", "/gradio_api/upload", content=untold()).status_code == 411
    message = request(guarded, "POST", "/gradio_api/queue/join", json={"data": "x" * 2_000_000})
    assert message.status_code == 413


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("cancel", {"content": b'{"data": \xbe', "headers": {"content-type": "application/json"}}, "parsing the body"),
        ("upload", {"files": {"files": ("", b"data")}}, "reload the page"),
    ],
)
def test_what_gradio_chokes_on_is_one_line(application, path, body, words):
    answer = request(application, "POST", f"/gradio_api/{path}", **body)
    assert answer.status_code == 400
    assert words in answer.json()["detail"]


def test_pixels_have_a_limit_before_any_is_decoded(desk):
    path = desk.folder / "bomb" / "bomb.png"
    path.parent.mkdir(exist_ok=True)
    Image.new("1", (12000, 12000)).save(path)
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match="more than 120 megapixels; resize it"):
        desk.prepared(str(path))


def test_a_large_photo_is_taken_and_reduced_and_a_note_says_so(desk, monkeypatch):
    monkeypatch.setattr("arr_coc.app.microscope.desk.LARGEST_SIDE", 256)
    path = desk.folder / "large" / "large.jpg"
    path.parent.mkdir(exist_ok=True)
    turned = Image.Exif()
    turned[0x0112] = 6  # lies on its side
    Image.new("RGB", (600, 400), (200, 30, 30)).save(path, exif=turned)
    picture = desk.prepared(str(path)).picture
    assert (picture.height, picture.width) == (256, 171)
    assert picture.name == "large.jpg"
    assert picture.notes == ("turned upright as its EXIF data says", "400×600 pixels, reduced to 171×256 on this page")
    assert desk.picture(str(path)).pixels.shape[:2] == (256, 171)
    small = desk.folder / "large" / "small.jpg"
    Image.new("RGB", (200, 100)).save(small)
    assert desk.prepared(str(small)).picture.notes == ()


def test_visitors_read_names_and_not_where_the_server_keeps_their_files(desk):
    path = desk.folder / "broken" / "holiday.png"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"not a picture at all")
    shown, trouble = in_a_sentence(lambda: desk.prepared(str(path)))
    assert shown is None
    assert "holiday.png is not a picture" in trouble
    assert str(desk.folder) not in trouble
    assert desk.folder.name not in trouble
    for words in (
        "give 0.5 and/or 1",
        "a page at https://example.org/a/b",
        "1/4 of it",
        "C:\\Users\\me\\a.png is a folder",
    ):
        assert without_folders(words) == words.replace("C:\\Users\\me\\", "")


# ---- what is served -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "/etc/hostname",
        "/etc/passwd",
        "pyproject.toml",
        "../../../../etc/passwd",
        "/proc/self/environ",
        "http://127.0.0.1:1/x.png",
        "file:///etc/passwd",
    ],
)
def test_no_file_outside_its_folder_is_served(application, desk, name):
    escaped = f"{desk.folder}/examples/../../../etc/passwd"
    for path in (name, escaped, str(desk.folder), str(Path(__file__).resolve())):
        answer = request(application, "GET", f"/gradio_api/file={path}")
        assert answer.status_code in (403, 404)
        assert "root:" not in answer.text
    inside = desk.example("street.png")
    assert request(application, "GET", f"/gradio_api/file={inside}").status_code == 200


@pytest.mark.parametrize("given", ["/etc/hostname", "http://127.0.0.1:1/picture.png", "../../etc/passwd"])
def test_a_question_about_another_file_is_not_answered(server, outgoing, given):
    visit = Visit(server.address)
    files = set(server.desk.folder.rglob("*"))
    assert visit.join(given, "What is it?", 25).status_code == 200
    message = visit.wait()
    assert not message["success"]
    assert "root:" not in str(message)
    assert set(server.desk.folder.rglob("*")) == files, "the file was copied into the folder that is served"
    assert not outgoing


def test_a_file_elsewhere_is_refused_by_the_desk_itself(desk, tmp_path):
    (tmp_path / "a.png").write_bytes(png(40, 40))
    os.symlink(tmp_path / "a.png", desk.folder / "link.png")
    for path in (tmp_path / "a.png", desk.folder / "link.png"):
        with pytest.raises(InputError, match="does not belong to the page"):
            desk.prepared(str(path))


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/proxy=http://127.0.0.1:1/",
        "/gradio_api/vibe-edit",
        "/gradio_api/process_recording",
        "/gradio_api/run-history/buckets",
        "/gradio_api/runs",
        "/gradio_api/component_server",
        "/gradio_api/run/predict",
        "/monitoring",
        "/docs",
        "/openapi.json",
        "/gradio_api/dev/reload",
    ],
)
def test_routes_that_the_page_does_not_need_do_not_exist(application, path):
    for method in ("GET", "POST"):
        assert request(application, method, path).status_code == 404


def test_answers_forbid_the_browser_to_leave_the_machine(application):
    headers = request(application, "GET", "/").headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "http" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_models_that_were_not_offered_are_not_loaded(desk):
    with pytest.raises(InputError, match="not offered"):
        desk.eye("/some/folder")
