"""`sense`: the texture array of a picture or of a clip's latest frame.

sense("street.png", layout="full40")                                   what the pixels say
sense("street.png", "the red sign", layout="full40", model="mini")     and where the model looks
sense("street.mp4", "the red sign", layout="full40", model="mini", video=True)
                                                                       and motion, history, what was looked at before

Channels that need the stream (motion, previous_*, fixation_history) come from `video.VideoStream`; attention is the
model's glance, in this frame and in the one before; the gaze is where it looks most. Semantic channels are a PCA of an
encoder's dense features and of text features: a user's CLIP or SigLIP, the photo map's detector, or the model's own
vision tower. What has no producer is zero, and a note names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .attending.request import check_request
from .core.checks import of_kind, shown, whole
from .core.errors import InputError, naming_extras
from .core.folders import CLASSIC_WEIGHTS
from .pictures.load import load_picture
from .realizing.bundled import HUB_NAME, model_folder

if TYPE_CHECKING:
    import torch

    from .answering.eye import Eye
    from .texture.pyramid import Pyramid
    from .texture.semantic import SemanticProjection
    from .texture.texture import Layout, Texture

QUESTION = "What is there?"
# Frames of a clip that lead up to the one that is sensed.
FRAMES = 8
# A picture is sensed at no more than this longer side, unless told.
LONGEST = 1024
MIPS = ("average", "learned", "attention")
# Texts that a projection is fitted on beside the question: things that pictures show.
PLAIN_TEXTS = ("a photo", "a word", "a number", "a person", "an animal", "a car", "the ground", "the sky", "a sign")
STREAM_ONLY = "a single picture has no history: give a clip and video=True for {}"
CHANNEL = {"attention": "current_attention", "semantic": "semantic_0"}
NO_MODEL = "no model: the attention channels are zero; give model="


@naming_extras()
def sense(
    image: object,
    query: str = QUESTION,
    layout: str | Layout = "mvp13",
    *,
    video: bool = False,
    model: str | Eye | None = None,
    encoder: str | None = None,
    clusters: object = "slic",
    gaze: tuple[float, float] | None = None,
    size: int | tuple[int, int] | None = None,
    text: str = "strokes",
    projection: str | Path | None = None,
    every: int = 1,
    frames: int = FRAMES,
    device: str = "cpu",
) -> Texture:
    """Sense a picture, or the latest frame of a clip, as a texture array of named channels.

    Args:
        image: As for `look`; with `video` a clip's path, or frames (T, H, W, 3) uint8.
        query: What the model's glance and the history of relevance are about.
        layout: "mvp13", "full40", "page15" (with the heights of letters), or a `sensing.Layout`.
        video: Whether it is a clip.
        model: Who attends: "mini", a folder, a name on the hub, or an `Eye`.
        encoder: A folder or name of CLIP or SigLIP, for semantic channels.
        clusters: "slic", "sam", the folder of a SAM, labels, `Clusters`, or None.
        gaze: (y, x) in 0–1; by default where the model, or else the history, looks most.
        size: The longer side, or (height, width).
        text: What finds text: "strokes", "ocr" or "auto".
        projection: A file of the semantic PCA; read where it exists, else fitted here and written there.
        every: Of a clip, each so-manieth frame.
        frames: Of a clip, so many frames.
        device: For the model.

    Returns:
        A `Texture`, (C, H, W) float32 in numpy; channels by name: `texture["saliency"]`.

    Example:
        >>> sense("street.png")["saliency"].shape  # doctest: +SKIP
        (768, 1024)
    """
    from .texture.channels import MEMORY_CHANNELS
    from .texture.named_clusters import check_clusters, find_clusters
    from .texture.one_picture import sense_one
    from .texture.texture import get_layout

    check_request([query])
    of_kind(video, bool, "video")
    whole(every, "every", 1)
    whole(frames, "frames", 2)
    if model is not None and not hasattr(model, "set_image"):
        model_folder(model)
    if encoder is not None and not (os.path.exists(of_kind(encoder, str, "encoder")) or HUB_NAME.fullmatch(encoder)):
        raise InputError(f"encoder={shown(encoder)} is neither a folder nor a name on the hub; give a CLIP or a SigLIP")
    check_clusters(clusters)
    chosen = get_layout(layout)
    past, pixels = _frames_of(image, every, frames) if video else ([], load_picture(image).pixels)
    size = min(LONGEST, max(pixels.shape[:2])) if size is None else size
    eye = _eye_of(model, device)
    notes = [
        f"{name}= was not used: the layout {chosen.name} has no {lacks} channels"
        for name, given, lacks in (("model", model, "attention"), ("encoder", encoder, "semantic"))
        if given is not None and CHANNEL[lacks] not in chosen
    ]
    memory = history(past, pixels, query) if past and set(MEMORY_CHANNELS) & set(chosen.names) else {}
    view: ModelView | None = None
    if eye is not None and ("current_attention" in chosen or "semantic_0" in chosen):
        view = ModelView.of(eye, at_most(pixels, size), query)
        memory["current_attention"] = view.attention
        if past:
            memory["previous_attention"] = carried(
                {"_": ModelView.of(eye, at_most(past[-1], size), query).attention}, past[-1], pixels
            )["_"]
    if gaze is None and "gaze" in chosen:
        gaze = brightest(memory.get("current_attention", memory.get("previous_relevance")))
    texture = sense_one(
        *(pixels, chosen),
        size=size,
        gaze=gaze,
        previous=past[-1] if past else None,
        clusters=find_clusters(pixels, clusters) if "cluster_id" in chosen and clusters is not None else None,
        text=text,
        memory=memory,
    )
    if "semantic_0" in chosen:
        features = semantic_features(pixels, query, encoder, view, device)
        if features is None:
            notes.append("no encoder: the semantic channels are zero; give encoder= or model=, or arr-coc doctor --download")
        else:
            texture, note = with_semantic(texture, features, projection)
            notes.append(note)
    if "previous_relevance" in chosen and not past:
        notes.append(STREAM_ONLY.format("motion, previous_* and fixation_history"))
    if "current_attention" in chosen and eye is None:
        notes.append(NO_MODEL)
    return texture.noting(*notes)


def silent_channels(texture: Texture) -> tuple[str, ...]:
    """Names of the channels that say nothing about this picture: the same number everywhere."""
    flat = np.asarray(texture.cropped().data).reshape(len(texture.names), -1)
    return tuple(name for name, row in zip(texture.names, flat, strict=True) if row.min() == row.max())


def mips_of(texture: Texture, kind: str = "average", levels: int = 5, attention: torch.Tensor | None = None) -> Pyramid:
    """The pyramid of one picture's texture, by averaging, by the learned downsampler that comes with the library, or
    weighted by attention: a map (h, w), or else the texture's own current_attention, or its saliency."""
    from .texture.pyramid import pyramid
    from .texture.reducers import LearnedDownsampler, attention_weighted

    tensors = texture.tensors()
    if kind == "average":
        return pyramid(tensors, levels)
    if kind == "learned":
        import torch

        folder = CLASSIC_WEIGHTS / f"mips_{texture.layout.name}"
        if not os.path.isdir(folder):
            raise InputError(
                f"no learned mips come with layout {texture.layout.name}; use mvp13, or train them: "
                f"python -m arr_coc_lab.classic.mips --layout {texture.layout.name} --out {CLASSIC_WEIGHTS}"
            )
        with torch.no_grad():
            return LearnedDownsampler.from_pretrained(folder).float().pyramid(tensors, levels)
    if kind != "attention":
        raise InputError(f"mips {kind!r} are unknown; choose {', '.join(MIPS)}")
    if attention is None:
        named = "current_attention" in texture and bool(np.asarray(texture["current_attention"]).any())
        attention = tensors["current_attention" if named else "saliency"]
    return attention_weighted(tensors, attention, levels)


# ---- the stream -----------------------------------------------------------------------------------------------------


def _frames_of(clip: object, every: int, frames: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The frames before the one that is sensed, and that one."""
    from .video.decode import open_film
    from .video.stream import check_frame

    every, frames = whole(every, "every", 1), whole(frames, "frames", 2)
    if isinstance(clip, str | PathLike):
        with open_film(clip, every, frames) as film:
            found = [pixels for _, pixels in film]
    else:
        found = [check_frame(pixels) for pixels in islice(of_kind(clip, Iterable, "a clip"), 0, frames * every, every)]
    if len(found) < 2:
        raise InputError(f"video=True needs two frames or more, and the clip has {len(found)}; leave it out")
    return found[:-1], found[-1]


def history(past: Sequence[np.ndarray], now: np.ndarray, query: str) -> dict[str, np.ndarray]:
    """What a stream remembers of the frames before, at the places where that ground is now."""
    from .video.stream import VideoStream

    stream = VideoStream(query, relevance="look", clusters=False)
    for pixels in past:
        stream.see(pixels)
    return carried(stream.memory(), past[-1], now)


def carried(maps: Mapping[str, np.ndarray], before: np.ndarray, now: np.ndarray) -> dict[str, np.ndarray]:
    """Maps (h, w) of the frame before, along the flow to this one."""
    import cv2

    from .texture.flow import backward_flow, warp

    if before.shape != now.shape or not maps:
        return dict(maps)
    earlier, later = (np.asarray(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)) for frame in (before, now))
    flow = backward_flow(earlier, later)
    result = {}
    for name, plane in maps.items():
        height, width = plane.shape
        scale = np.array([width / now.shape[1], height / now.shape[0]], np.float32)
        small = cv2.resize(flow, (width, height), interpolation=cv2.INTER_AREA) * scale
        result[name] = np.clip(warp(np.ascontiguousarray(plane, dtype=np.float32), small), 0, 1)
    return result


def at_most(pixels: np.ndarray, size: int | tuple[int, int]) -> np.ndarray:
    """(H, W, 3) uint8, no larger than the texture that a model's view is laid over."""
    return load_picture(pixels, longest_side=size if isinstance(size, int) else max(size)).pixels


def brightest(plane: np.ndarray | None) -> tuple[float, float] | None:
    """(y, x) in 0–1 of a map's highest place; None without one."""
    if plane is None or not float(np.max(plane)) > 0:
        return None
    row, col = divmod(int(np.argmax(plane)), plane.shape[1])
    return (row + 0.5) / plane.shape[0], (col + 0.5) / plane.shape[1]


# ---- the model ------------------------------------------------------------------------------------------------------


def _eye_of(model: Eye | str | None, device: str) -> Eye | None:
    if model is None or not isinstance(model, str):
        return model
    from .answering.eye import Eye

    return Eye.from_pretrained(model, device=device)


@dataclass(frozen=True, eq=False)
class ModelView:
    """What a model makes of one picture: attention (rows, cols) in [0, 1] on its coarse view, where it looks before it
    answers; tokens (rows, cols, D) of its vision tower; words (L, D), the question as its language model reads it."""

    attention: np.ndarray
    tokens: torch.Tensor
    words: torch.Tensor

    @classmethod
    def of(cls, eye: Eye, pixels: np.ndarray, query: str) -> ModelView:
        import torch

        from .realizing.glance import glance_relevance

        if not eye.backbone.can_glance or eye.backbone.tiled:
            raise InputError(f"{eye.name} cannot glance at a picture in one piece; give mini or a Qwen3-VL")
        inputs = eye.set_image(pixels).prepare(query, keep=1.0).inputs
        glimpse = glance_relevance(eye.backbone, eye.model, inputs, [query]).relevance[0]
        (grid,) = eye.backbone.grids(eye.model, inputs)
        with torch.no_grad():
            given = {name: inputs[name] for name in eye.backbone.picture_keys}
            found = eye.model.get_image_features(**given)
            tokens = torch.cat(list(getattr(found, "pooler_output", found))).float().cpu()
            texts = [query, *PLAIN_TEXTS]
            ids = [eye.processor.tokenizer(one, add_special_tokens=False)["input_ids"] for one in texts]
            embeddings = eye.model.get_input_embeddings()
            places = torch.tensor([one for row in ids for one in row], device=embeddings.weight.device)
            words = embeddings(places).float().cpu()
        attention = glimpse.map if glimpse.participatory is None else glimpse.participatory
        return cls(np.asarray(attention), tokens.view(grid.rows, grid.cols, -1), words)


# ---- semantic channels ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Features:
    """Dense features (h, w, D) of a picture and (M, D) of texts, in one space; whose they are, in words."""

    image: torch.Tensor
    text: torch.Tensor
    whose: str


def semantic_features(
    pixels: np.ndarray, query: str, encoder: str | None, view: ModelView | None, device: str = "cpu"
) -> Features | None:
    """From a user's encoder; else for photographs from the detector, where it is there; else from the model's tower;
    else from the detector all the same; None where there is none of them."""
    import torch

    if encoder is not None:
        from .knowing.encoder import load_encoder

        loaded = load_encoder(encoder, device)
        tensor = torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))).float()[None] / 255
        tokens, counts = loaded.text_features([query, *PLAIN_TEXTS])
        return Features(loaded.image_features(tensor)[0].cpu(), tokens[counts].cpu(), f"the encoder {encoder}")
    from .knowing.photos.parts import find_part
    from .pictures.kind import is_photograph

    detector = find_part("detector") is not None
    if detector and (view is None or is_photograph(pixels)):
        from .knowing.photos.nets import class_features, detect

        dense = torch.from_numpy(class_features(detect(pixels)))
        return Features(dense, torch.eye(dense.shape[-1]), "the photo map's detector, by its classes")
    return None if view is None else Features(view.tokens, view.words, "the model's vision tower")


def with_semantic(texture: Texture, features: Features, path: str | Path | None = None) -> tuple[Texture, str]:
    """The texture with its sixteen semantic channels, and a note that says whose they are."""
    from .texture.semantic import enlarged_units
    from .texture.texture import SEMANTIC_NAMES

    projection, fitted = _projection(features, path)
    planes = enlarged_units(projection.image(features.image).permute(2, 0, 1)[None], (texture.height, texture.width))
    named = dict(zip(SEMANTIC_NAMES, planes[0].numpy(), strict=True))
    kept = f"{100 * projection.variance_kept:.0f} % of the variance"
    return texture.replacing(**named), f"semantic channels: {features.whose}, PCA {fitted} ({kept})"


def _projection(features: Features, path: str | Path | None) -> tuple[SemanticProjection, str]:
    from .texture.semantic import SemanticProjection

    if path is not None and os.path.exists(path):
        found = SemanticProjection.load(path)
        if len(found.image_mean) != features.image.shape[-1]:
            raise InputError(f"{path} was fitted on other features than those of {features.whose}; give another file")
        return found, f"of {path}"
    fitted = SemanticProjection.fit(features.image.flatten(0, 1), features.text)
    if path is not None:
        fitted.save(path)
    return fitted, "fitted on this picture and the texts of the question"


# ---- files ----------------------------------------------------------------------------------------------------------


def save_texture(path: str | PathLike[str], texture: Texture, mips: Pyramid | None = None) -> None:
    """One .npz: names (C,), data (C, H, W) float32, notes, layout; with mips also level_1, level_2, … of them."""
    from .core.files import replacing

    arrays = {
        "names": np.array(texture.names),
        "data": np.asarray(texture.cropped().data, dtype=np.float32),
        "notes": np.array(texture.notes, dtype=np.str_),
        "layout": np.array(texture.layout.name),
    }
    for level, mip in enumerate(mips.levels if mips is not None else ()):
        if level:
            arrays[f"level_{level}"] = np.asarray(mip.cropped().data, dtype=np.float32)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
