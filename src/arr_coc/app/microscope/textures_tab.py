"""Textures: every channel by name at any mip level, and the clusters with their quality."""

from __future__ import annotations

import cv2
import numpy as np

from ...draw import contact_sheet
from ...draw.channels import channel_pixels, identifier_colours, range_words
from ...draw.palette import level_colour
from ...pictures.load import Picture
from ...texture.clusters import ClusterQuality, Clusters, lab_at, quality
from ...texture.named_clusters import find_clusters
from ...texture.one_picture import sense_one
from ...texture.pyramid import pyramid
from ...texture.texture import Texture
from .desk import Desk
from .kit import MicroscopePage, SheetContent, TabSheet, gradio, picture_lines, program
from .linking import PageState
from .markup import Figure, figures, notes, shown_pixels, shown_size, table

SENSE_SIDE = 512
LEVELS = 5


def sensed(desk: Desk, path: str | None, layout: str, clusters: str = "slic") -> tuple[Texture, ...]:
    """The pyramid of a picture's channels, finest first."""
    picture = desk.prepared(path).picture

    def sense() -> tuple[Texture, ...]:
        side = min(SENSE_SIDE, max(picture.pixels.shape[:2]))
        texture = sense_one(picture.pixels, layout, size=side, clusters=clustered(desk, path, clusters)[0])
        levels = pyramid(texture.tensors(), LEVELS).levels
        return tuple(level.cropped() for level in levels)

    return desk.remember(("textures", path, layout, clusters), sense)


def clustered(desk: Desk, path: str | None, clusters: str = "slic") -> tuple[Clusters, ClusterQuality]:
    """Clusters after tidying, and their quality."""
    picture = desk.prepared(path).picture

    def find() -> tuple[Clusters, ClusterQuality]:
        found = find_clusters(picture.pixels, clusters)
        return found, quality(found.labels, lab_at(picture.pixels, (found.labels.shape[0], found.labels.shape[1])))

    return desk.remember(("clusters", path, clusters), find)


def show_textures(desk: Desk, path: str | None, state: PageState) -> SheetContent:
    picture = desk.prepared(path).picture
    textures = sensed(desk, path, state.layout, state.clusters)
    texture = textures[state.level]
    channels = [
        Figure(channel_pixels(texture, name), name, range_words(texture, name), blocky=True) for name in texture.names
    ]
    clusters, report = clustered(desk, path, state.clusters)
    size = f"{texture.width}×{texture.height}"
    heading = (
        f"{len(texture.names)} channels at level {state.level}: {size} cells of {1 << state.level}×{1 << state.level}"
    )
    html = (
        f"<h3>{heading}</h3>{notes(texture.notes)}{figures(channels, 'small')}<h3>Clusters</h3>"
        f'<div class="beside">{figures([cluster_figure(picture, clusters)], "one")}{quality_table(report)}</div>'
    )
    return SheetContent(
        "textures",
        html,
        lambda: contact_sheet(
            [*(one.pixels for one in channels), cluster_figure(picture, clusters).pixels],
            [*texture.names, "clusters"],
            columns=6,
        ),
        lambda: texture_document(texture, state, report),
        texture_lines(state, picture.name),
        state.link(),
    )


def cluster_figure(picture: Picture, clusters: Clusters) -> Figure:
    """The clusters' outlines over the picture."""
    size = shown_size(picture.size, 480)
    pixels = shown_pixels(picture.pixels, size)
    labels = cv2.resize(clusters.labels, size[::-1], interpolation=cv2.INTER_NEAREST)
    tinted = cv2.addWeighted(pixels, 0.7, identifier_colours(labels.astype(np.int64)), 0.3, 0)
    edge = np.zeros(size, dtype=bool)
    edge[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    edge[1:] |= labels[1:] != labels[:-1]
    tinted[edge] = level_colour(0)
    scales = "two scales" if clusters.parents is not None else "one scale"
    return Figure(tinted, "Clusters", f"{clusters.count} clusters, {scales}.")


def quality_table(report: ClusterQuality) -> str:
    spread = f"{100 * min(report.sizes):.1f} %, {100 * max(report.sizes):.1f} %"
    rows = [
        {"what": "clusters", "value": f"{report.count}", "means": "good between 20 and 100"},
        {
            "what": "smallest, largest",
            "value": spread,
            "means": "area",
        },
        {"what": "within variance", "value": f"{report.within_variance:.1f}", "means": "colour inside clusters"},
        {"what": "between variance", "value": f"{report.between_variance:.1f}", "means": "colour between clusters"},
        {"what": "ratio", "value": f"{report.ratio:.2f}", "means": "good above 2"},
        {"what": "silhouette", "value": f"{report.silhouette:.2f}", "means": "-1 to 1, on a sample"},
        {"what": "verdict", "value": "good" if report.good else "not good", "means": "", "kind": "sum"},
    ]
    return table({"what": "quality", "value": "", "means": "what it means"}, rows, "Quality of the clusters")


def texture_document(texture: Texture, state: PageState, report: ClusterQuality) -> dict[str, object]:
    channels = {}
    for name in texture.names:
        values = np.asarray(texture[name])
        channels[name] = {"low": float(values.min()), "mean": float(values.mean()), "high": float(values.max())}
    return {
        "layout": state.layout,
        "level": state.level,
        "size": {"height": texture.height, "width": texture.width},
        "channels": channels,
        "clusters": {**vars(report), "sizes": list(report.sizes)},
    }


def texture_lines(state: PageState, file_name: str) -> str:
    imports, lines = picture_lines(state.picture, file_name)
    imports += [
        "from arr_coc.pictures.load import load_picture",
        "from arr_coc.texture.named_clusters import find_clusters",
        "from arr_coc.texture.one_picture import sense_one",
        "from arr_coc.texture.pyramid import pyramid",
    ]
    lines += [
        "pixels = load_picture(picture, longest_side=1600).pixels",
        f"clusters = find_clusters(pixels, {state.clusters!r})",
        f"size = min({SENSE_SIDE}, max(pixels.shape[:2]))",
        f"texture = sense_one(pixels, {state.layout!r}, size=size, clusters=clusters)",
        f"level = pyramid(texture.tensors(), {LEVELS})[{state.level}].cropped()",
        "for name in level.names:",
        "    print(name, float(level[name].min()), float(level[name].max()))",
    ]
    return program(imports, lines)


def textures_tab(page: MicroscopePage) -> None:
    gr = gradio()
    with gr.Row():
        layout = gr.Radio(["mvp13", "full40"], value="mvp13", label="Layout", elem_id="layout", min_width=180)
        clusters = gr.Radio(["slic", "sam"], value="slic", label="Clusters", elem_id="clusters", min_width=180)
        level = gr.Slider(0, LEVELS - 1, 0, step=1, label="Mip level (0 is finest)", elem_id="level", min_width=180)
    sheet = TabSheet(page, "textures")
    sheet.exports()

    controls = {"layout": layout, "clusters": clusters, "level": level}
    sheet.shows(lambda path, state, _: show_textures(page.desk, path, state), controls)
